"""Letters are sorted by their kind, answered by whoever is for it, and no refund leaves without somebody's consent."""

from __future__ import annotations

from tests.stories.conftest import Asked, Notebook

LETTERS = """
from ensemble_notebook import ReviewDecision

letters = [{"letter": "I paid twice, 40 euros each."}, {"letter": "The gate does not open."}]

def lead(request):
    return ReviewDecision.edit(request.text.replace("80", "40"))
"""
CELL = """
%%ensemble -o answers --map letters
llm: openai:test-model
review_handler: lead
tasks:
  triage: {description: "Sort this letter: {letter}", output_type: {kind: billing | technical, urgent: bool}}
  refund: {description: Write a refund, context: triage, when: {triage: {field: kind, equals: billing}}, review: after}
  repair: {description: Write a repair order, context: triage, when: {triage: default}}
"""


def answer(asked: Asked) -> str:
    """The model: the first letter is sorted wrongly at first, and its refund is too high."""
    if "gate" in asked.task:
        return '{"kind": "technical", "urgent": false}'
    if "paid" in asked.task:
        return '{"kind": "%s", "urgent": true}' % ("billing" if "money" in asked.said else "money")
    return "We send you back 80 euros." if asked.task == "Write a refund" else "Please look at the gate."


def test_letters_go_where_they_belong_and_refunds_are_reviewed(notebook: Notebook) -> None:
    notebook.answer(answer)
    notebook.run(LETTERS, CELL)
    assert notebook.value("answers.frame.raw.tolist()") == ["We send you back 40 euros.", "Please look at the gate."]
    assert notebook.value("answers[0].output.frames.reviews[['task', 'text', 'review_decision']].values.tolist()") == [
        ["refund", "We send you back 80 euros.", "edit"]
    ]
    assert notebook.value("answers[0].output['triage'].parsed_output") == {"kind": "billing", "urgent": True}
    assert notebook.value("[[each.name for each in row.output] for row in answers]") == [
        ["triage", "refund"],
        ["triage", "repair"],
    ]
    # The first letter was sorted twice, since its kind was none of the two.
    assert notebook.value("answers.frame.input_tokens.tolist()") == [33, 22]
    assert len(notebook.server.requests) == 5
    assert "2 rows: 2 completed, 90 tokens" in notebook.pictures()
