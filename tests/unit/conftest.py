from __future__ import annotations

from hypothesis import settings

# How long an example takes tells of the machine, not of the code.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
