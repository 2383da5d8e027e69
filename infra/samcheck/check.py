"""check.py TEMPLATE: what the SAM transform makes of the template, without AWS.

Prints one line a finding and ends with 1, or prints what was checked and ends with 0.
"""

import os
import sys

os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")  # the transform wants a region to name a partition

from samtranslator.public.exceptions import InvalidDocumentException
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse


class NoManagedPolicies:
    """The template names no managed policy by its bare name, so the list that IAM would give is not needed."""

    def load(self):
        return {}


# What every function is, and what one of them is beside that.
EVERY_FUNCTION = {"Runtime": "provided.al2023", "Architectures": ["arm64"], "Handler": "bootstrap", "MemorySize": 256}
FUNCTIONS = {
    "GatewayFunction": {"Timeout": 900},
    # A poll sends the next one, which Lambda takes for a loop and stops after about 16 where it is not allowed.
    "PollerFunction": {"Timeout": 150, "RecursiveLoop": "Allow"},
    "SweeperFunction": {"Timeout": 60},
}

# Functions behind a public URL, and how their answers travel.
PUBLIC_URLS = {"GatewayFunction": "RESPONSE_STREAM"}

# A URL with AuthType NONE answers 403 unless both are granted (required of new URLs since October 2025).
URL_PERMISSIONS = {
    "lambda:InvokeFunctionUrl": ("FunctionUrlAuthType", "NONE"),
    "lambda:InvokeFunction": ("InvokedViaFunctionUrl", True),
}

# What queues invoke which function, with how many messages at a time. A message that is handled must not be seen by somebody
# else, and Lambda wants it hidden for at least six times the function's timeout.
# https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html (2026-11)
SOURCES = {"JobsQueue": ("PollerFunction", 10), "GenerateQueue": ("PollerFunction", 1), "WebhooksQueue": ("PollerFunction", 10)}
HIDDEN_FOR_TIMEOUTS = 6
LEAST_RECEIVES = 5  # of a message before it is put aside; https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html (2026-11)
DEAD_LETTERS_KEPT = 14 * 24 * 3600
DEAD_LETTERS = {"JobsQueue": "JobsDeadLetters", "GenerateQueue": "GenerateDeadLetters", "WebhooksQueue": "WebhooksDeadLetters"}

# What schedules invoke which function, and that nothing is tried again: the next round is as good.
SCHEDULES = {"SweeperFunction": "rate(1 minute)"}

# The shared state. Every table has one key and forgets by one attribute, is paid for by the request, can be restored, and
# is protected as the parameter says. That of the jobs has indexes beside.
EVERY_TABLE = {
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "TimeToLiveSpecification": {"AttributeName": "expires_at", "Enabled": True},
    "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
    "DeletionProtectionEnabled": {"Ref": "DeletionProtection"},
}


def index(name, hash_key, sort_key, projection):
    keys = [{"AttributeName": hash_key, "KeyType": "HASH"}, {"AttributeName": sort_key, "KeyType": "RANGE"}]
    return {"IndexName": name, "KeySchema": keys, "Projection": projection}


# As internal/dynamo/jobs.go reads them; by-status is for people.
STORY = "job organization kind model provider channel progress poll_number last_error created_at deadline_at finished_at cost_usd".split()
ATTRIBUTES = {"id": "S", "organization": "S", "list_place": "S", "status": "S", "updated_at": "S", "due": "S", "look_at": "N"}
JOBS_TABLE = EVERY_TABLE | {
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": kind} for name, kind in ATTRIBUTES.items()],
    "GlobalSecondaryIndexes": [
        index("by-organization", "organization", "list_place", {"ProjectionType": "ALL"}),
        index("by-status", "status", "updated_at", {"ProjectionType": "INCLUDE", "NonKeyAttributes": STORY}),
        index("due", "due", "look_at", {"ProjectionType": "ALL"}),
    ],
}
TABLES = dict.fromkeys(["IdempotencyTable", "HealthTable", "RequestsTable"], EVERY_TABLE) | {"JobsTable": JOBS_TABLE}
PROTECTED_BY_DEFAULT = {"DeletionProtection": "true"}

# Nothing in the bucket is public, everything is encrypted, and everything is forgotten: answers a day after they count no
# longer, works with their job, and what was not copied to its end the next day.
BUCKET = "ResultsBucket"
BUCKET_HAS = {
    "PublicAccessBlockConfiguration": dict.fromkeys(["BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"], True),
    "BucketEncryption": {"ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]},
    "LifecycleConfiguration": {
        "Rules": [
            {"Id": "forget-results", "Status": "Enabled", "Prefix": "results/", "ExpirationInDays": 2},
            {"Id": "forget-media", "Status": "Enabled", "Prefix": "media/", "ExpirationInDays": 33, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}},
        ]
    },
}

# All that a function may do, statement by statement: what its stores call, and where: no action with a wildcard.
JOBS = (["dynamodb:GetItem", "dynamodb:PutItem"], {"Fn::GetAtt": ["JobsTable", "Arn"]})
HEALTH = (["dynamodb:GetItem", "dynamodb:UpdateItem"], {"Fn::GetAtt": ["HealthTable", "Arn"]})
SENDS = ("sqs:SendMessage", [{"Fn::GetAtt": [queue, "Arn"]} for queue in SOURCES])
MEDIA = {"Fn::Sub": "${ResultsBucket.Arn}/media/*"}


def queries(name):
    return ("dynamodb:Query", {"Fn::Sub": "${JobsTable.Arn}/index/" + name})


STATEMENTS = {
    "GatewayFunction": [
        (["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"], {"Fn::GetAtt": ["IdempotencyTable", "Arn"]}),
        HEALTH,
        (["dynamodb:GetItem", "dynamodb:PutItem"], {"Fn::GetAtt": ["RequestsTable", "Arn"]}),
        (["s3:GetObject", "s3:PutObject"], {"Fn::Sub": "${ResultsBucket.Arn}/results/*"}),
        JOBS,
        queries("by-organization"),
        SENDS,
        (["s3:GetObject", "s3:PutObject"], MEDIA),
    ],
    "PollerFunction": [JOBS, HEALTH, SENDS, (["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"], MEDIA)],
    "SweeperFunction": [JOBS, queries("due"), SENDS, (["s3:PutObject", "s3:AbortMultipartUpload"], MEDIA)],
}
# What SAM adds to every role: its own log, and to that of a function behind queues what Lambda's pollers do in its name.
LOGS = "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
ROLE_HAS = dict.fromkeys(FUNCTIONS, {LOGS}) | {
    function: {LOGS, "arn:aws:iam::aws:policy/service-role/AWSLambdaSQSQueueExecutionRole"} for function, _ in SOURCES.values()
}


def package(template):
    """Stands in for `sam package`, which uploads each CodeUri; the transform refuses a local folder."""
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = "s3://packaged/code.zip"


def findings(resources):
    of_type = lambda name: {k: v["Properties"] for k, v in resources.items() if v["Type"] == name}
    functions = of_type("AWS::Lambda::Function")
    urls = of_type("AWS::Lambda::Url")
    permissions = of_type("AWS::Lambda::Permission").values()

    if functions.keys() != FUNCTIONS.keys():
        yield f"functions are {sorted(functions)}, check.py knows {sorted(FUNCTIONS)}"
    for name, own in FUNCTIONS.items():
        for key, want in (EVERY_FUNCTION | own).items():
            got = functions.get(name, {}).get(key)
            if got != want:
                yield f"{name}: {key} is {got!r}, want {want!r}"

    for name, mode in PUBLIC_URLS.items():
        url = next((u for u in urls.values() if u["TargetFunctionArn"] == {"Ref": name}), {})
        for key, want in {"AuthType": "NONE", "InvokeMode": mode}.items():
            if url.get(key) != want:
                yield f"{name}: its URL's {key} is {url.get(key)!r}, want {want!r}"
        for action, (key, want) in URL_PERMISSIONS.items():
            wanted = {"Action": action, "FunctionName": {"Ref": name}, "Principal": "*", key: want}
            if wanted not in permissions:
                yield f"{name}: no permission {wanted}"


def queue_findings(resources):
    of_type = lambda name: {k: v["Properties"] for k, v in resources.items() if v["Type"] == name}
    queues = of_type("AWS::SQS::Queue")
    known = DEAD_LETTERS.keys() | DEAD_LETTERS.values()
    if queues.keys() != known:
        yield f"queues are {sorted(queues)}, check.py knows {sorted(known)}"
    for name in sorted(known):
        if queues.get(name, {}).get("SqsManagedSseEnabled") is not True:
            yield f"{name}: it is not encrypted"
    for name, dead in DEAD_LETTERS.items():
        redrive = queues.get(name, {}).get("RedrivePolicy", {})
        if redrive.get("deadLetterTargetArn") != {"Fn::GetAtt": [dead, "Arn"]} or redrive.get("maxReceiveCount", 0) < LEAST_RECEIVES:
            yield f"{name}: its RedrivePolicy is {redrive}, want {dead} after {LEAST_RECEIVES} or more"
        kept = queues.get(dead, {}).get("MessageRetentionPeriod")
        if kept != DEAD_LETTERS_KEPT:
            yield f"{dead}: it keeps messages for {kept} s, want {DEAD_LETTERS_KEPT}"

    mappings = list(of_type("AWS::Lambda::EventSourceMapping").values())
    if len(mappings) != len(SOURCES):
        yield f"{len(mappings)} event source mappings, check.py knows {len(SOURCES)}"
    for name, (function, batch) in SOURCES.items():
        mapping = next((m for m in mappings if m["EventSourceArn"] == {"Fn::GetAtt": [name, "Arn"]}), {})
        wanted = {"FunctionName": {"Ref": function}, "BatchSize": batch, "FunctionResponseTypes": ["ReportBatchItemFailures"]}
        for key, want in wanted.items():
            if mapping.get(key) != want:
                yield f"{name}: {key} of its event source is {mapping.get(key)!r}, want {want!r}"
        if not 2 <= mapping.get("ScalingConfig", {}).get("MaximumConcurrency", 0) <= 1000:
            yield f"{name}: its event source has no MaximumConcurrency, so that a full queue takes the account's concurrency"
        hidden, timeout = queues.get(name, {}).get("VisibilityTimeout", 30), resources[function]["Properties"].get("Timeout", 3)
        if hidden < HIDDEN_FOR_TIMEOUTS * timeout:
            yield f"{name}: a message is hidden for {hidden} s, which is less than {HIDDEN_FOR_TIMEOUTS} timeouts of {function}, {timeout} s each"

    schedules = list(of_type("AWS::Scheduler::Schedule").values())
    if len(schedules) != len(SCHEDULES):
        yield f"{len(schedules)} schedules, check.py knows {len(SCHEDULES)}"
    for function, rate in SCHEDULES.items():
        schedule = next((s for s in schedules if s["Target"]["Arn"] == {"Fn::GetAtt": [function, "Arn"]}), {})
        if schedule.get("ScheduleExpression") != rate:
            yield f"{function}: its schedule is {schedule.get('ScheduleExpression')!r}, want {rate!r}"
        if schedule.get("Target", {}).get("RetryPolicy") != {"MaximumRetryAttempts": 0}:
            yield f"{function}: its schedule tries again"
        again = [c for c in of_type("AWS::Lambda::EventInvokeConfig").values() if c["FunctionName"] == {"Ref": function}]
        if [c.get("MaximumRetryAttempts") for c in again] != [0]:
            yield f"{function}: Lambda tries a failed invocation again"


def state_findings(resources, parameters):
    tables = {k for k, v in resources.items() if v["Type"] == "AWS::DynamoDB::Table"}
    if tables != TABLES.keys():
        yield f"tables are {sorted(tables)}, check.py knows {sorted(TABLES)}"
    buckets = {k for k, v in resources.items() if v["Type"] == "AWS::S3::Bucket"}
    if buckets != {BUCKET}:
        yield f"buckets are {sorted(buckets)}, check.py knows {BUCKET}"
    for name, wanted in {**TABLES, BUCKET: BUCKET_HAS}.items():
        resource = resources.get(name, {})
        properties = resource.get("Properties", {})
        for key, want in wanted.items():
            if properties.get(key) != want:
                yield f"{name}: {key} is {properties.get(key)!r}, want {want!r}"
        for key in sorted(properties.keys() - wanted.keys()):
            yield f"{name}: check.py does not know {key}"
        if resource.get("UpdateReplacePolicy") != "Retain":
            yield f"{name}: an update that replaces it would lose what it holds"
    for name, want in PROTECTED_BY_DEFAULT.items():
        got = parameters.get(name, {}).get("Default")
        if got != want:
            yield f"parameter {name}: its default is {got!r}, want {want!r}"


def role_findings(resources):
    for function, wanted in STATEMENTS.items():
        role = resources.get(f"{function}Role", {}).get("Properties", {})
        if set(role.get("ManagedPolicyArns", [])) != ROLE_HAS[function]:
            yield f"{function}: its role has {role.get('ManagedPolicyArns')}, want {sorted(ROLE_HAS[function])}"
        got = [s for policy in role.get("Policies", []) for s in policy["PolicyDocument"]["Statement"]]
        want = [{"Effect": "Allow", "Action": actions, "Resource": on} for actions, on in wanted]
        for statement in got:
            if statement not in want:
                yield f"{function}: check.py does not know the statement {statement}"
        for statement in want:
            if statement not in got:
                yield f"{function}: it lacks the statement {statement}"


def main(path):
    with open(path, encoding="utf-8") as file:
        template = yaml_parse(file.read())
    package(template)
    try:
        transformed = transform(template, {}, NoManagedPolicies())
    except InvalidDocumentException as error:
        sys.exit("\n".join(f"{path}: {cause.message}" for cause in error.causes))
    resources = transformed["Resources"]
    found = [*findings(resources), *queue_findings(resources), *state_findings(resources, template["Parameters"]), *role_findings(resources)]
    if found:
        sys.exit("\n".join(f"{path}: {finding}" for finding in found))
    print(f"{path}: {', '.join(FUNCTIONS)}: as deployed, with both permissions of every public URL; "
          f"{', '.join([*TABLES, BUCKET])}: protected, forgetting, and open to those statements alone; "
          f"{', '.join(SOURCES)}: hidden for {HIDDEN_FOR_TIMEOUTS} timeouts, bounded, reported item by item, and each with its dead letters")


main(sys.argv[1])
