"""Starts MiniStack, the local AWS, with two of its parts changed.

Its own evaluation of alarms ignores dimensions and missing data and runs whenever a metric arrives, so it would fight
with local/cloudwatch, which evaluates alarms as CloudWatch does. Its scheduler looks at the clock every ten seconds,
so a rate of one minute becomes up to seventy seconds.

The lock file names the exact version. Should another one have neither part, this stops rather than run half of it.
"""

import sys

from ministack.services import cloudwatch, scheduler

if not callable(getattr(cloudwatch, "_evaluate_all_alarms", None)) or not hasattr(scheduler, "_SCHEDULE_TICK_INTERVAL"):
    sys.exit("This MiniStack is not the version that local/emulator/ministack.py was written for.")

cloudwatch._evaluate_all_alarms = lambda: None
scheduler._SCHEDULE_TICK_INTERVAL = 1

from ministack.app import main  # noqa: E402

main()
