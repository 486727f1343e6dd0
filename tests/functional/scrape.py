# SPDX-License-Identifier: BSD-2-Clause
"""
A scraper: `scrape.py PORT [PATH]` prints the page. `scrape.py PORT --hostile
FILE` opens connections and sends what no scraper sends, creates FILE, and keeps
the connections until its standard input ends.
"""

import http.client
import socket
import sys

HOSTILE = [
    b'',
    b'GET /met',
    b'GET /metrics HTTP/1.1\r\n',
    b'\x00' * 4096,
    b'GET /' + b'a' * 100000,
    b'GET /metrics HTTP/1.1\r\n' + b'X: ' + b'y' * 60000 + b'\r\n',
    b'X: y\r\n' * 10000,
    b'POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\nx',
    b'GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz',
    # many requests, without reading an answer
    b'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n' * 200,
]


def get(port, path):
    conn = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
    conn.request('GET', path)
    answer = conn.getresponse()
    sys.stdout.write(answer.read().decode())
    return 0 if answer.status == 200 else 1


def hostile(port, file):
    held = []
    for i in range(80):
        s = socket.socket()
        s.settimeout(1)
        try:
            s.connect(('127.0.0.1', port))
            s.send(HOSTILE[i % len(HOSTILE)])
        except OSError:
            pass  # refused, reset, or not read: as expected
        held.append(s)
    with open(file, 'w', encoding='ascii'):
        pass
    sys.stdin.read()
    return 0


if sys.argv[2:3] == ['--hostile']:
    sys.exit(hostile(int(sys.argv[1]), sys.argv[3]))
sys.exit(get(int(sys.argv[1]), (sys.argv[2:] or ['/metrics'])[0]))
