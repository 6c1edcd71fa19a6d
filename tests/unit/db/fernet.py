"""Tokens as former versions of kiln wrote them: Fernet, bound to no row."""

from cryptography.fernet import Fernet


def as_before(path, value):
    """Make a key file one of a former version; return a token that it encrypted with it."""
    lines = [line for line in path.read_text().splitlines() if line != 'tokens bound']
    path.write_text(''.join(f'{line}\n' for line in lines))
    current = next(line.split()[1] for line in lines if line.startswith('current '))
    return Fernet(current).encrypt(value.encode()).decode()
