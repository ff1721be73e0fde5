"""contextualbandits: linear Thompson sampling, one regression for each arm; fit on all rows, predict for a batch of contexts."""

import numpy as np
from contextualbandits.online import LinTS
from stopwatch import answer, question, smallest

WAYS = {
    "each": {"sample_from": "ci"},  # a score for each context, from its law
    "coefficients": {"sample_from": "coef", "sample_unique": True},  # its default: coefficients for each context
    "once": {"sample_from": "coef", "sample_unique": False},  # coefficients for all contexts
}


def main():
    """Answer one question: times, and how the scores of two arms were drawn, for each way to draw."""
    asked = question()
    data = np.load(asked["path"])
    context, action, reward, fresh = data["context"], data["action"], data["reward"], data["fresh"]
    settings = {"v_sq": asked["noise"] ** 2, "lambda_": asked["precision"], "fit_intercept": False, "random_state": 1, "njobs": 1}
    found = {}
    for name, way in WAYS.items():
        bandit = LinTS(asked["arms"], method="chol", **settings, **way)
        fit, _ = smallest(lambda b=bandit: b.fit(context, action, reward), asked["repeats"])
        predict, _ = smallest(lambda b=bandit: b.predict(fresh), asked["repeats"])
        drawn = bandit.decision_function(fresh)
        away = (drawn[:, 0] - drawn[:, 1] - data["gap"]) / data["gap_sd"]
        found.update({"fit": fit, name: predict, f"{name} spread": float(np.sqrt(np.square(away).mean()))})
    greedy = LinTS(asked["arms"], method="chol", **dict(settings, v_sq=1e-18), **WAYS["each"]).fit(context, action, reward)
    found["slopes"] = greedy.decision_function(np.eye(fresh.shape[1])).T.tolist()
    answer("contextualbandits", found)


main()
