"""Starts MiniStack, the local AWS, with some of its parts changed.

Its own evaluation of alarms ignores dimensions and missing data and runs whenever a metric arrives, so it would fight
with local/cloudwatch, which evaluates alarms as CloudWatch does. Its scheduler looks at the clock every ten seconds,
so a rate of one minute becomes up to seventy seconds.

Where it decides as IAM does (AUTH=true, in tests), it does not know what a request of KMS or S3 says that conditions
ask for: the encryption context, and If-None-Match. Both are in the request, and are given to it here.

The lock file names the exact version. Should another one lack one of these parts, this stops rather than run half of it.
"""

import json
import sys

from ministack.core import iam_actions
from ministack.services import cloudwatch, scheduler

PARTS = [
    (cloudwatch, "_evaluate_all_alarms"),
    (scheduler, "_SCHEDULE_TICK_INTERVAL"),
    (iam_actions, "request_tag_context"),
    (iam_actions, "s3_service_context"),
]
if not all(hasattr(module, name) for module, name in PARTS):
    sys.exit("This MiniStack is not the version that local/emulator/ministack.py was written for.")

cloudwatch._evaluate_all_alarms = lambda: None
scheduler._SCHEDULE_TICK_INTERVAL = 1

tags_of, s3_keys_of = iam_actions.request_tag_context, iam_actions.s3_service_context


def with_encryption_context(service, iam_action, body, params):
    keys = dict(tags_of(service, iam_action, body, params))
    if service == "kms":
        context = json.loads(body or b"{}").get("EncryptionContext") or {}
        keys.update({f"kms:EncryptionContext:{name}": value for name, value in context.items()})
    return keys


def with_conditional_write(iam_action, query_params, path="", headers=None):
    keys = dict(s3_keys_of(iam_action, query_params, path, headers))
    if iam_action == "s3:PutObject":
        keys["s3:ObjectCreationOperation"] = "true"
        if (headers or {}).get("if-none-match"):
            keys["s3:if-none-match"] = headers["if-none-match"]
    return keys


iam_actions.request_tag_context = with_encryption_context
iam_actions.s3_service_context = with_conditional_write

from ministack.app import main  # noqa: E402

main()
