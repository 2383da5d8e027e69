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
EVERY_FUNCTION = {"Runtime": "provided.al2023", "Architectures": ["arm64"], "Handler": "bootstrap"}
FUNCTIONS = {"GatewayFunction": {"MemorySize": 256, "Timeout": 900}}

# Functions behind a public URL, and how their answers travel.
PUBLIC_URLS = {"GatewayFunction": "RESPONSE_STREAM"}

# A URL with AuthType NONE answers 403 unless both are granted (required of new URLs since October 2025).
URL_PERMISSIONS = {
    "lambda:InvokeFunctionUrl": ("FunctionUrlAuthType", "NONE"),
    "lambda:InvokeFunction": ("InvokedViaFunctionUrl", True),
}

# The shared state. Every table has one key and forgets by one attribute, is paid for by the request, can be restored, and
# is protected as the parameter says.
TABLES = {"IdempotencyTable", "HealthTable", "RequestsTable"}
EVERY_TABLE = {
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "TimeToLiveSpecification": {"AttributeName": "expires_at", "Enabled": True},
    "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
    "DeletionProtectionEnabled": {"Ref": "DeletionProtection"},
}
PROTECTED_BY_DEFAULT = {"DeletionProtection": "true"}

# Nothing in the bucket is public, everything is encrypted, and answers are forgotten: a day after they count no longer.
BUCKET = "ResultsBucket"
BUCKET_HAS = {
    "PublicAccessBlockConfiguration": dict.fromkeys(["BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"], True),
    "BucketEncryption": {"ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]},
    "LifecycleConfiguration": {"Rules": [{"Id": "forget-results", "Status": "Enabled", "Prefix": "results/", "ExpirationInDays": 2}]},
}

# All that a function may do, statement by statement: what its stores call, and where: no action with a wildcard.
STATEMENTS = {
    "GatewayFunction": [
        (["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"], {"Fn::GetAtt": ["IdempotencyTable", "Arn"]}),
        (["dynamodb:GetItem", "dynamodb:UpdateItem"], {"Fn::GetAtt": ["HealthTable", "Arn"]}),
        (["dynamodb:GetItem", "dynamodb:PutItem"], {"Fn::GetAtt": ["RequestsTable", "Arn"]}),
        (["s3:GetObject", "s3:PutObject"], {"Fn::Sub": "${ResultsBucket.Arn}/results/*"}),
    ],
}
# What SAM adds to every role: its own log.
ROLE_HAS = {"arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"}


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


def state_findings(resources, parameters):
    tables = {k for k, v in resources.items() if v["Type"] == "AWS::DynamoDB::Table"}
    if tables != TABLES:
        yield f"tables are {sorted(tables)}, check.py knows {sorted(TABLES)}"
    buckets = {k for k, v in resources.items() if v["Type"] == "AWS::S3::Bucket"}
    if buckets != {BUCKET}:
        yield f"buckets are {sorted(buckets)}, check.py knows {BUCKET}"
    for name, wanted in {**dict.fromkeys(sorted(TABLES), EVERY_TABLE), BUCKET: BUCKET_HAS}.items():
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
        if set(role.get("ManagedPolicyArns", [])) != ROLE_HAS:
            yield f"{function}: its role has {role.get('ManagedPolicyArns')}, want {sorted(ROLE_HAS)}"
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
    found = [*findings(resources), *state_findings(resources, template["Parameters"]), *role_findings(resources)]
    if found:
        sys.exit("\n".join(f"{path}: {finding}" for finding in found))
    print(f"{path}: {', '.join(FUNCTIONS)}: as deployed, with both permissions of every public URL; "
          f"{', '.join(sorted(TABLES | {BUCKET}))}: protected, forgetting, and open to those statements alone")


main(sys.argv[1])
