"""Questions of lab 01."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lablib.course.spec import Option, Question, Quiz, Watch, WrongValue

if TYPE_CHECKING:
    from lablib.trace import Trace

SHORT, LONG, SECOND_BATCH = "r1", "r2", "r4"  # the shortest and the longest answer of the first batch


def _max_tokens(trace: Trace, request_id: str) -> int:
    return int(trace.requests["max_tokens"][trace.requests["id"].index(request_id)])


def _rows_of(trace: Trace, request_id: str) -> int:
    return int((trace.chunks()["request"] == trace.requests["id"].index(request_id)).sum())


def _first_padded_step(trace: Trace) -> int:
    return _max_tokens(trace, SHORT)


def _padding_of_second_prefill(trace: Trace) -> int:
    chunks = trace.chunks()
    step = chunks["step"][chunks["request"] == trace.requests["id"].index(SECOND_BATCH)].min()
    return int(chunks["padding"][chunks["step"] == step].sum())


WATCH = (
    Watch(
        "1.longest",
        "Which request keeps the first batch from ending? (Its id, such as `'r0'`.)",
        expect=LONG,
        wrong=(WrongValue(SHORT, says="That one is done first; everybody waits for the row that is done last."),),
        because="r2 writes the longest answer of the first batch; r0, r1 and r3 wait for it, and so does the queue.",
    ),
    Watch(
        "1.done",
        "At which step does row r1 first compute nothing but padding?",
        expect=_first_padded_step,
        wrong=(
            WrongValue(
                lambda value, trace: value == _first_padded_step(trace) - 1,
                says="In that step it samples its last token; look one step further.",
            ),
            WrongValue(
                lambda value, trace: value == _first_padded_step(trace) + 1,
                says="One too late: steps count from 0, and the prefill (step 0) already gives the first token.",
            ),
        ),
        because="Its 6 tokens come out of steps 0 (the prefill) to 5; from step 6 on the row is a straggler.",
    ),
    Watch(
        "1.straggle",
        "For how many steps does r1's row compute padding after it is done?",
        expect=lambda trace: _rows_of(trace, SHORT) - _max_tokens(trace, SHORT),
        wrong=(
            WrongValue(
                lambda value, trace: value == _rows_of(trace, SHORT),
                says="That is the length of the whole batch; r1's own tokens are part of it.",
            ),
            WrongValue(
                lambda value, trace: abs(value - (_rows_of(trace, SHORT) - _max_tokens(trace, SHORT))) == 1,
                says="One off: steps count from 0. It is done after step 5; the batch's last step is 39.",
            ),
        ),
        because="The batch runs for the 40 steps that r2 needs; r1 needed 6 of them.",
    ),
    Watch(
        "1.padding",
        "How many padding positions does the prefill of the second batch (r4 to r7) compute, in all its rows?",
        expect=_padding_of_second_prefill,
        wrong=(WrongValue(0, says="Go to step 40, where r4 is admitted: the prompts are not equally long."),),
        because="Each prompt is filled up to the longest of its batch.",
    ),
)

QUIZ = Quiz(
    questions=(
        Question(
            "A row is done after 6 of 40 steps. What do the other 34 cost for it?",
            options=(
                Option(
                    "Nothing: its output is masked.",
                    says="The mask hides the result. The position still goes through every layer.",
                ),
                Option(
                    "One computed position a step, a slot and its K/V memory.",
                    says="Yes: the computing can be small; the slot and the memory are what the queue is waiting for.",
                    right=True,
                ),
                Option("Only memory.", says="The executor computes `num_padding` positions for it in every step."),
            ),
        ),
        Question(
            "Four answers take 10, 10, 10 and 90 steps. The batch takes …",
            options=(
                Option("90 steps, the longest", says="Yes: the longest answer sets the time of all four.", right=True),
                Option("30 steps, the mean", says="The batch ends with its last row: the mean says nothing about it."),
                Option("120 steps, the sum", says="The rows run side by side, a token each in every step."),
            ),
        ),
        Question(
            "When does the first token of an answer reach the user (without streaming)?",
            options=(
                Option("After the prefill.", says="That is when it exists. It is delivered when the batch ends."),
                Option("When its own row is done.", says="The answers of a batch are handed over together."),
                Option(
                    "When the whole batch ends: TTFT equals E2E.",
                    says="Yes. Streaming cures this one; it does not give the slot back any sooner.",
                    right=True,
                ),
            ),
        ),
        Question(
            "You sort the requests by prompt length before batching. What falls?",
            options=(
                Option(
                    "Stragglers.", says="They come from answers of different lengths; nobody knows those beforehand."
                ),
                Option(
                    "Padding.",
                    says="Yes: neighbours are equally long. How long an *answer* gets is still unknown to you.",
                    right=True,
                ),
                Option("Both.", says="Prompt and answer lengths are nearly independent in real traffic."),
            ),
        ),
        Question(
            "1,000 documents wait on disk; each gets a label of exactly 3 tokens, tonight. Static batching is …",
            options=(
                Option(
                    "a fine choice, if prompts of like length go together",
                    says="Yes: no stragglers, little padding, no queue, and the simplest code there is.",
                    right=True,
                ),
                Option(
                    "a poor choice: it always wastes slots",
                    says="Waste needs *differences*: here all answers are equally long, and nobody is in a hurry.",
                ),
            ),
        ),
    ),
)
