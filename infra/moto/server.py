"""server.py -H HOST -p PORT: moto_server, with connections that are kept.

Werkzeug speaks HTTP/1.0 by default and closes the connection behind every answer. A client that is still writing then
loses the answer now and then: "use of closed network connection".

DynamoDB's requests are served one at a time. Moto reads an item, changes it and puts it back without a lock, so that of two
ADDs at once one may be lost, which DynamoDB does not allow.
"""

from threading import Lock

from moto.server import main
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from werkzeug.serving import WSGIRequestHandler

WSGIRequestHandler.protocol_version = "HTTP/1.1"

dispatch = DomainDispatcherApplication.__call__
one_at_a_time = Lock()


def serve(app, environ, start_response):
    if not environ.get("HTTP_X_AMZ_TARGET", "").startswith("DynamoDB"):
        return dispatch(app, environ, start_response)
    with one_at_a_time:
        return dispatch(app, environ, start_response)


DomainDispatcherApplication.__call__ = serve
main()
