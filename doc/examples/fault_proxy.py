import http.server
import threading
import urllib.error
import urllib.request

from kiln.testing.proxy import Answer, FaultProxy, LoseAnswer

built: list[str] = []


class Api(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        built.append(self.path)
        self.send_response(202)
        self.end_headers()

    def log_request(self, code: int | str = '-', size: int | str = '-') -> None:
        pass


def build(url: str) -> int:
    request = urllib.request.Request(url + '/servers', method='POST')
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


with http.server.HTTPServer(('127.0.0.1', 0), Api) as api:
    threading.Thread(target=api.serve_forever, args=(0.01,)).start()
    with FaultProxy(f'http://127.0.0.1:{api.server_port}/v2.1') as proxy:
        proxy.fault([Answer(429, retry_after=5), LoseAnswer(Answer(504))], 'POST', '/servers')
        print(build(proxy.url), built)  # 429 []
        print(build(proxy.url), built)  # 504 ['/v2.1/servers']
        print(build(proxy.url), len(built))  # 202 2
        print(proxy.requests[1].status, proxy.requests[1].server_status)  # 504 202
        print(proxy.count('POST', '/servers'))  # 3
    api.shutdown()
