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


def main(path):
    with open(path, encoding="utf-8") as file:
        template = yaml_parse(file.read())
    package(template)
    try:
        transformed = transform(template, {}, NoManagedPolicies())
    except InvalidDocumentException as error:
        sys.exit("\n".join(f"{path}: {cause.message}" for cause in error.causes))
    found = list(findings(transformed["Resources"]))
    if found:
        sys.exit("\n".join(f"{path}: {finding}" for finding in found))
    print(f"{path}: {', '.join(FUNCTIONS)}: as deployed, with both permissions of every public URL")


main(sys.argv[1])
