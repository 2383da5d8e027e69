#!/bin/sh
# seed.sh makes the tables, the bucket and the queues of template.yaml at AWS_ENDPOINT_URL, which is LocalStack's port where it is not
# set. What is there is kept. `make run` at that endpoint does the same; this is for other tools.
set -eu
cd "$(dirname "$0")/.."
AWS_ENDPOINT_URL=${AWS_ENDPOINT_URL:-http://127.0.0.1:4566} CGO_ENABLED=0 exec go run -tags lambda.norpc ./localstack -seed
