"""server.py -H HOST -p PORT: moto_server, with connections that are kept.

Werkzeug speaks HTTP/1.0 by default and closes the connection behind every answer. A client that is still writing then
loses the answer now and then: "use of closed network connection".
"""

from moto.server import main
from werkzeug.serving import WSGIRequestHandler

WSGIRequestHandler.protocol_version = "HTTP/1.1"
main()
