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
    shared = {"lambda_": asked["precision"], "fit_intercept": False, "method": "chol", "random_state": 1, "njobs": 1}

    def fitted(way, spread):
        """Return a bandit after all rows; a new one each time, because a second fit adds to the first."""
        return LinTS(asked["arms"], v_sq=spread, **shared, **way).fit(context, action, reward)

    found = {}
    for name, way in WAYS.items():
        fit, bandit = smallest(lambda w=way: fitted(w, asked["noise"]), asked["repeats"])  # v_sq multiplies the spread
        predict, _ = smallest(lambda b=bandit: b.predict(fresh), asked["repeats"])
        drawn = bandit.decision_function(fresh)
        away = (drawn[:, 0] - drawn[:, 1] - data["gap"]) / data["gap_sd"]
        found.update({"fit": fit, name: predict, f"{name} spread": float(np.sqrt(np.square(away).mean()))})
    found["slopes"] = fitted(WAYS["each"], 1e-12).decision_function(np.eye(fresh.shape[1])).T.tolist()
    answer("contextualbandits", found)


main()
