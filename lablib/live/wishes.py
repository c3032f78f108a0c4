"""What the browser asks for, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lablib.live.widget import LiveEngine

WISHES: dict[str, Callable[[LiveEngine, Mapping[str, Any]], object]] = {
    "submit": lambda live, wish: live.submit(str(wish["text"])),
    "send": lambda live, wish: live.send_prompts(int(wish["count"])),
    "abort": lambda live, wish: live.abort(str(wish["id"])),
    "pause": lambda live, wish: live.pause(),
    "resume": lambda live, wish: live.resume(),
    "step": lambda live, wish: live.step_once(),
    "reset": lambda live, wish: live.reset(),
    "dismiss": lambda live, wish: live.stage.say(""),
    "open": lambda live, wish: live.view_opened(str(wish["view"])),
    "gone": lambda live, wish: live.view_gone(str(wish["view"])),
}


def obey(live: LiveEngine, wish: Mapping[str, Any]) -> None:
    """Do what somebody wants who has a mouse; what can't be done is said in the view."""
    try:
        WISHES[wish["do"]](live, wish)
    except (TypeError, ValueError, RuntimeError) as error:
        live.stage.say(str(error))
