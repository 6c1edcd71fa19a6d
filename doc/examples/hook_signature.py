import hashlib
import hmac
import time
from collections.abc import Mapping


def is_from_kiln(
    headers: Mapping[str, str], body: bytes, secret: bytes, oldest_s: float = 300
) -> bool:
    timestamp = headers['Kiln-Timestamp']
    if abs(time.time() - int(timestamp)) > oldest_s:
        return False
    signed = timestamp.encode() + b'.' + body
    wanted = 'sha256=' + hmac.new(secret, signed, hashlib.sha256).hexdigest()
    return hmac.compare_digest(wanted, headers['Kiln-Signature'])


print(is_from_kiln({'Kiln-Timestamp': '0', 'Kiln-Signature': ''}, b'{}', b'secret'))  # False
