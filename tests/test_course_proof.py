"""Every exercise of every lab is proven: its check accepts the reference and rejects mistakes, each for its reason."""

from __future__ import annotations

from collections import Counter

import course_example
import pytest
from mutations import score

from lablib.course import registry
from lablib.course.grade import grade, namespace_of
from lablib.course.spec import Exercise, Lab, WrongAnswer

LABS = (*registry.labs(), course_example.LAB)
EXERCISES = [exercise for lab in LABS for exercise in lab.exercises]
WRONG = [(exercise, wrong) for exercise in EXERCISES for wrong in exercise.wrong]
NEEDED = 0.9


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda each: each.key)
def test_the_reference_passes_its_own_check(exercise: Exercise) -> None:
    reference = exercise.load_reference()
    report = grade(exercise, reference, namespace_of(reference))
    assert report.green, report.first_failure


@pytest.mark.parametrize(("exercise", "wrong"), WRONG, ids=[f"{each.key}-{wrong.name}" for each, wrong in WRONG])
def test_each_known_wrong_answer_fails_for_its_own_reason(exercise: Exercise, wrong: WrongAnswer) -> None:
    report = grade(exercise, wrong.answer, namespace_of(wrong.answer))
    failure = report.first_failure
    assert failure is not None, f"{wrong.name}: the check accepts it"
    assert report.hint == wrong.says
    assert wrong.case in ("", failure.case.name)


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda each: each.key)
def test_at_least_nine_of_ten_single_edits_of_the_reference_are_rejected(exercise: Exercise) -> None:
    found = score(exercise)
    survivors = "\n  ".join(found.survivors)
    summary = f"{len(found.mutants)} mutants, {found.rejected:.0%} rejected; these pass:\n  {survivors}"
    print(summary)
    assert found.mutants
    assert not found.stale, f"equivalent= names no surviving mutant: {found.stale}"
    assert found.rejected >= NEEDED, summary


@pytest.mark.parametrize("lab", LABS, ids=lambda each: f"{each.number:02d}")
def test_a_lab_file_is_consistent(lab: Lab) -> None:
    keys = [each.key for each in (*lab.exercises, *lab.watch)]
    assert all(registry.lab_number(key) == lab.number for key in keys)
    for exercise in lab.exercises:
        assert len(exercise.hints) == 3
        assert all(hint.strip() for hint in exercise.hints)
        assert all(times == 1 for times in Counter(case.name for case in exercise.cases).values())
        assert {wrong.case for wrong in exercise.wrong} <= {"", *(case.name for case in exercise.cases)}
        assert exercise.wrong, f"{exercise.key} lists no wrong answer"
    assert all(times == 1 for times in Counter(keys).values())
    for question in lab.quiz.questions if lab.quiz else ():
        assert all(option.says.strip() for option in question.options)
