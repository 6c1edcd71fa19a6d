"""Draws the pictures of the documentation: ``python doc/pictures.py``."""

import pathlib

STATIC = pathlib.Path(__file__).parent / 'source' / '_static'
INK, SOFT, FILL = '#1f2933', '#52606d', '#f0f4f8'


class Picture:
    """Boxes, arrows and words, as SVG."""

    def __init__(self, width, height):
        self.width, self.height, self.parts = width, height, []

    def box(self, x, y, w, h, title, *lines, fill=FILL):
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="8" fill="{fill}" stroke="{INK}"/>'
        )
        top = y + h / 2 - 8 * len(lines)
        self.text(x + w / 2, top + 5, title, size=14, weight='bold')
        for i, line in enumerate(lines):
            self.text(x + w / 2, top + 23 + 16 * i, line, size=12, ink=SOFT)

    def text(self, x, y, text, *, size=12, weight='normal', ink=INK, anchor='middle'):
        self.parts.append(
            f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{ink}" '
            f'text-anchor="{anchor}">{text}</text>'
        )

    def arrow(self, points, label='', at=None, anchor='middle'):
        path = 'M' + ' L'.join(f'{x},{y}' for x, y in points)
        self.parts.append(f'<path d="{path}" fill="none" stroke="{SOFT}" marker-end="url(#a)"/>')
        if label:
            self.text(*at, label, size=11, ink=SOFT, anchor=anchor)

    def save(self, name):
        body = '\n'.join(self.parts)
        (STATIC / name).write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" font-family="sans-serif">\n'
            f'<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0,0 L10,5 L0,10 z" fill="{SOFT}"/>'
            f'</marker></defs>\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
        )


def layers():
    picture = Picture(680, 500)
    rows = [
        ('controller', 'Octavia, Magnum, a script, the kiln command', '#ffffff'),
        ('Compute, the facade', 'checks arguments; answers with an Operation at once', FILL),
        ('executor', 'threads, queue, deadline, retries, safe build', FILL),
        ('circuit breaker', 'read, build and change apart', FILL),
        ('rate', 'token bucket, lowered by "too many requests"', FILL),
        ('observer', 'metrics and spans of what really leaves', FILL),
        ("vendor's driver", 'hooks in the language of the backend', '#e3f8ff'),
        ('backend', 'Nova, containers, machines, or a simulated cloud', '#ffffff'),
    ]
    for i, (title, line, fill) in enumerate(rows):
        y = 10 + 61 * i
        picture.box(20, y, 440, 48, title, line, fill=fill)
        if i:
            picture.arrow([(240, y - 13), (240, y - 1)])
    picture.box(520, 132, 140, 110, 'watcher', 'one request', 'serves all', 'waiters')
    picture.arrow([(520, 217), (461, 217)])
    picture.arrow([(590, 132), (590, 95), (461, 95)])
    picture.save('layers.svg')


def states():
    picture = Picture(820, 400)
    at = {
        'PENDING': (20, 40), 'BUILDING': (210, 40), 'ACTIVE': (420, 150), 'SUSPENDED': (650, 60),
        'STOPPED': (650, 240), 'ERROR': (210, 260), 'DELETING': (420, 330),
    }  # fmt: skip
    for name, (x, y) in at.items():
        picture.box(x, y, 130, 44, name, fill='#e3f8ff' if name == 'ACTIVE' else FILL)
    picture.box(650, 330, 130, 44, 'gone', fill='#ffffff')
    picture.text(85, 28, 'build()', ink=SOFT)
    picture.arrow([(150, 62), (209, 62)])
    picture.arrow([(340, 62), (485, 62), (485, 149)], 'it runs', (430, 55))
    picture.arrow([(275, 84), (275, 259)], 'it fails', (269, 180), 'end')
    picture.arrow([(550, 160), (600, 160), (600, 75), (649, 75)], 'suspend()', (596, 118), 'end')
    picture.arrow([(715, 104), (715, 176), (551, 176)], 'resume()', (708, 150), 'end')
    picture.arrow([(550, 190), (690, 190), (690, 239)], 'it stops', (640, 207))
    picture.arrow([(649, 262), (520, 262), (520, 195)], 'reboot(hard)', (590, 256))
    picture.arrow([(419, 182), (320, 182), (320, 259)], 'it crashes', (370, 176))
    picture.arrow([(341, 275), (450, 275), (450, 195)], 'rebuild()', (392, 269))
    picture.arrow([(275, 304), (275, 352), (419, 352)], 'delete(), from any state', (340, 368))
    picture.arrow([(550, 352), (649, 352)])
    picture.save('states.svg')


if __name__ == '__main__':
    STATIC.mkdir(parents=True, exist_ok=True)
    layers()
    states()
