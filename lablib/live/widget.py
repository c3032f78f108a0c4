"""LiveEngine: type a prompt, and watch it join the running batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from IPython.display import display

from lablib.clock import WallClock
from lablib.engine import Engine
from lablib.live.limits import Limits
from lablib.live.picture import draw_example
from lablib.live.prompts import Prompt, PromptBox
from lablib.live.scheduler import LiveBatching
from lablib.live.stage import Stage
from lablib.live.steploop import StepLoop
from lablib.live.wishes import obey
from lablib.model import LanguageModel
from lablib.request import Request, SamplingParams
from lablib.trace import Trace
from lablib.viz import assets
from lablib.viz.figures import WIDGET_MIME, Picture

STATIC = Path(__file__).parent / "static"
_OPEN: dict[str, LiveEngine] = {}


class LiveEngine(anywidget.AnyWidget):
    """Serves a model from a notebook cell, and shows every request in its slot while its text is written.

    It runs on the kernel's event loop, so only between cells; the forward pass runs in a worker thread. Shown in a
    cell it gives a picture, for readers without a kernel, and the live view. Nothing is computed before a view opens in
    a browser, or ``start()`` is called; when the last view goes, it pauses until another opens.

    Args:
        model: its weights are shared, its KV cache is left to others: this engine has its own.
        max_num_seqs: slots, the most requests that run at once.
        max_model_len: most tokens of one request.
        max_num_batched_tokens: most tokens of one step; by default a full prompt and a decode for every other slot.
        prompts: what *send 20* sends, messages to the assistant; by default the texts written for this lab.
        name: title; making another engine of the same name closes this one, as when its cell runs again.

    Attributes:
        max_num_seqs: most requests that run, from 1 to what was built. A lower limit admits nobody until fewer run; who
            runs stays.
        max_num_batched_tokens: token budget of a step.
        max_tokens: most output tokens of the requests to come.
        temperature: of the requests to come; 0 is greedy.

    All four can be set at any time and hold from the next step on; a value outside its range becomes the nearest in it.

    Raises:
        ValueError: a limit that can't work, or no prompts.
    """

    _esm = assets.script(STATIC / "live.js")
    _css = assets.style(STATIC / "live.css")
    _alt = traitlets.Unicode().tag(sync=True)
    _built = traitlets.Dict().tag(sync=True)
    max_num_seqs = traitlets.Int().tag(sync=True)
    max_num_batched_tokens = traitlets.Int().tag(sync=True)
    max_tokens = traitlets.Int(64).tag(sync=True)
    temperature = traitlets.Float(0.0).tag(sync=True)
    stage: Stage

    def __init__(
        self,
        model: LanguageModel,
        max_num_seqs: int = 8,
        max_model_len: int = 512,
        max_num_batched_tokens: int | None = None,
        prompts: Sequence[str] | None = None,
        name: str = "LiveEngine",
    ) -> None:
        self._name = name
        self._model = model
        budget = max_model_len + max_num_seqs if max_num_batched_tokens is None else max_num_batched_tokens
        self._limits = Limits(max_num_seqs, max_model_len, budget)
        self._executor = self._limits.executor(model)
        self._prompts = PromptBox(model, max_model_len, prompts)
        self._views: set[str] = set()
        self._absent = False
        self.stage = Stage(self._tell, model.decode)
        self._steps = StepLoop(self._new_engine(), self.stage)
        self.stage.show(self._steps)
        super().__init__(
            _alt=f"{name}: {max_num_seqs} slots of {max_model_len} tokens, {self._executor.name}",
            _built={"title": name, "model": self._executor.name} | self._limits.facts(),
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=budget,
            max_tokens=min(64, max_model_len - 1),
        )
        self.on_msg(self._from_browser)
        self.observe(lambda _: self._steps.call(self._turn_knobs), ["max_num_seqs", "max_num_batched_tokens"])
        former = _OPEN.get(name)
        if former is not None:
            former.close()
        _OPEN[name] = self

    # What a learner can do

    def submit(self, text: str, max_tokens: int | None = None, temperature: float | None = None) -> str:
        """Send a message to the assistant; returns the request's id.

        Args:
            text: the message; the model's chat template goes around it.
            max_tokens: most output tokens; by default the knob's.
            temperature: by default the knob's.

        Raises:
            ValueError: it can never be served; the message names request, need and limit.
            RuntimeError: the engine is closed.
        """
        return self._submit(Prompt(text, self._model.encode_chat(text)), max_tokens, temperature)

    def send_prompts(self, count: int = 20) -> list[str]:
        """Send prompts of varied length, to be answered at varied length; returns the requests' ids."""
        sent = []
        for prompt in self._prompts.take(count, self.max_num_batched_tokens):
            room = self._limits.max_model_len - len(prompt.token_ids)
            sent.append(self._submit(prompt, min(room, self._prompts.answer_length(self.max_tokens))))
        return sent

    def abort(self, request_id: str) -> None:
        """End a request after the step in work; one that is unknown or has ended is left alone."""
        self._steps.between_steps(lambda: self._abort(request_id))

    def start(self) -> None:
        """Serve without waiting for a view to open; needs the event loop of a kernel."""
        self._steps.start()
        self.stage.touch()

    def pause(self) -> None:
        """Stop after the step in work."""
        self._steps.paused = True
        self.stage.touch()

    def resume(self) -> None:
        """Go on."""
        self._steps.resume()
        self.stage.touch()

    def step_once(self) -> None:
        """Compute one step, then pause."""
        self._steps.step_once()
        self.stage.touch()

    def reset(self) -> None:
        """Forget all requests and the trace, and begin anew."""
        self._require_open()
        self._steps.between_steps(self._reset)

    def close(self) -> None:
        """End the thread and whoever is not done; the view shows the last state, and ``trace`` is complete."""
        if not self.closed:
            self._steps.close()
            scheduler = self._engine.scheduler
            for request_id in [*scheduler.running, *(request.request_id for request in scheduler.waiting)]:
                self._abort(request_id)
            self._engine.complete_trace()
            self.stage.touch()
            if _OPEN.get(self._name) is self:
                del _OPEN[self._name]

    @property
    def paused(self) -> bool:
        """Whether it waits to be resumed."""
        return self._steps.paused

    @property
    def closed(self) -> bool:
        """Whether it has ended for good."""
        steps = getattr(self, "_steps", None)  # a widget that could not be made is closed too, when it is collected
        return steps is None or steps.closed

    @property
    def trace(self) -> Trace:
        """The record since the beginning or the last reset; ``StepPlayer`` plays it."""
        return self._engine.complete_trace()

    # What the views tell

    def view_opened(self, view: str) -> None:
        """A view of this name has opened: it wants to see everything, and something happening."""
        self._views.add(view)
        if self._absent:
            self._absent, self._steps.paused = False, False
        if not self.closed:
            self._steps.start()
        self.stage.send_everything()

    def view_gone(self, view: str) -> None:
        """A view is gone; without any there is nobody to compute for."""
        self._views.discard(view)
        if not self._views and not self.paused:
            self._absent = True
            self.pause()

    # Inside

    @property
    def _engine(self) -> Engine:
        return self._steps.engine

    def _new_engine(self) -> Engine:
        return Engine(self._limits.scheduler(), self._executor, WallClock(), workload="live requests")

    @traitlets.validate("max_num_seqs", "max_num_batched_tokens", "max_tokens", "temperature")
    def _inside(self, proposal: dict[str, Any]) -> Any:
        name = proposal["trait"].name
        low, high = self._limits.ranges()[name]
        if math.isnan(proposal["value"]):
            raise traitlets.TraitError(f"{name} must be a number from {low} to {high}, got {proposal['value']}")
        return max(low, min(high, proposal["value"]))

    def _submit(self, prompt: Prompt, max_tokens: int | None = None, temperature: float | None = None) -> str:
        self._require_open()
        sampling = SamplingParams(
            max_tokens=self.max_tokens if max_tokens is None else max_tokens,
            temperature=self.temperature if temperature is None else temperature,
        )
        number = self._engine.trace.num_requests
        request = Request(f"r{number}", prompt.token_ids, sampling, arrival_time=self._engine.clock.now())
        self._engine.add_request(request)
        self.stage.board.add(request, prompt.text)
        self._steps.go_on()
        self.stage.touch()
        return request.request_id

    def _require_open(self) -> None:
        if self.closed:
            raise RuntimeError(f"{self._name} is closed; run its cell again for a new one")

    def _abort(self, request_id: str) -> None:
        self.stage.board.take(self._engine.abort(request_id))
        self.stage.touch()

    def _reset(self) -> None:
        self._steps.engine = self._new_engine()
        self.stage.show(self._steps)
        self._turn_knobs()
        self._steps.resume()
        self.stage.send_everything()

    def _turn_knobs(self) -> None:
        scheduler = self._engine.scheduler
        if isinstance(scheduler, LiveBatching):
            scheduler.num_open_slots = self.max_num_seqs
            scheduler.max_num_batched_tokens = self.max_num_batched_tokens
        self._steps.go_on()
        self.stage.touch()

    def _tell(self, content: dict[str, Any]) -> None:
        self.send(content)

    def _from_browser(self, _: Any, wish: dict[str, Any], __: Any) -> None:
        self._steps.call(lambda: obey(self, wish))

    def __repr__(self) -> str:
        return f"LiveEngine({self._alt})"

    def _ipython_display_(self) -> None:
        picture = Picture(draw_example(self._name), self._alt, width="960px")
        display(picture._repr_mimebundle_(), raw=True)  # type: ignore[no-untyped-call]
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        display({WIDGET_MIME: view, "text/plain": "LiveEngine: run this cell for the live view"}, raw=True)  # type: ignore[no-untyped-call]
