"""The words and symbols of the page, each in a sentence; the glossary of the docs quotes them."""

from __future__ import annotations

from tempora_tta.store import Results

WORDS = {
    "Utility": "What a deployment gets out of a method: the share of all batches that is right, in time and served.",
    "λ": "The time of standard inference for one batch, with a provision: the unit in which deployments are strict.",
    "Calibration error": "ECE: how far a method's confidence is from how often it is right, on what it serves.",
    "Availability": "The share of the batches that is served at all; the others are skipped.",
    "Responsiveness": "What answers keep of their value because they come in time; 1 means that none is late.",
    "Covariance": "How far right answers are also the prompt ones; added to accuracy times responsiveness.",
    "Adapted fraction": "The share of the served batches on which the method adapts; then the model is frozen.",
    "Intrinsic overhead": "The part of a method's time that delays the answer to the batch itself.",
    "Extrinsic overhead": "The part after the answer, which delays the batches that follow.",
    "Under pressure": "Every scenario but offline, where the stream waits for the method.",
    "Cell": "One shift under one scenario, its seeds taken together.",
    "Win": "The highest utility of a cell. Methods that are equal to twelve digits all win it.",
    "Champion": "Of a scenario: the method that wins it over all shifts together.",
    "Insolvent": "Even if all its predictions were right, a method would lose to the best one here.",
    "Holds": "The winner is ahead of all rivals at once with 95 % certainty, over other batches and times.",
    "Equal": "Surely within half a point of the winner, so that there is nothing to choose.",
    "Undecided": "The run cannot tell, by sampling (too few batches) or by timing (times known too roughly).",
    "Regret": "What choosing one method everywhere loses against the best of each cell.",
    "Shift": "A way in which images differ from those of training. Clean images stand apart and count in no mean.",
}


def glossary(results: Results) -> dict[str, str]:
    """Word or symbol -> meaning; the knobs of the run's scenarios in the words of their cards."""
    found = dict(WORDS)
    for protocol in results.cards.in_protocol_order(results.contenders["protocol"]):
        card = results.cards.scenario(protocol)
        if card.symbol and card.parameter:
            found.setdefault(card.symbol, f"{card.axis}. {card.title}: {card.story.rstrip('.')}.")
        symbol = str(results.contenders.loc[results.contenders["protocol"] == protocol, "label"].iloc[0])[:1]
        if symbol == "ρ":
            found.setdefault("ρ", "Utilisation: λ over the interval between arrivals; 100 % leaves no slack.")
    return dict(sorted(found.items(), key=lambda entry: entry[0].lower()))
