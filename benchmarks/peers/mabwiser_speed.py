"""MABWiser: linear Thompson sampling, one regression for each arm; fit on all rows, predict for a batch of contexts."""

import numpy as np
from mabwiser.mab import MAB, LearningPolicy
from stopwatch import answer, question, smallest


def main():
    """Answer one question: times, coefficients, and how the scores of two arms were drawn."""
    asked = question()
    data = np.load(asked["path"])
    context, action, reward, fresh = data["context"], data["action"], data["reward"], data["fresh"]
    policy = LearningPolicy.LinTS(alpha=asked["noise"], l2_lambda=asked["precision"])
    bandit = MAB(arms=list(range(asked["arms"])), learning_policy=policy, seed=1, n_jobs=1)
    fit, _ = smallest(lambda: bandit.fit(decisions=action, rewards=reward, contexts=context), asked["repeats"])
    predict, _ = smallest(lambda: bandit.predict(fresh), asked["repeats"])
    drawn = np.array([[found[0], found[1]] for found in bandit.predict_expectations(fresh)])
    away = (drawn[:, 0] - drawn[:, 1] - data["gap"]) / data["gap_sd"]
    slopes = [bandit._imp.arm_to_model[arm].beta.tolist() for arm in range(asked["arms"])]
    found = {"fit": fit, "each": predict, "each spread": float(np.sqrt(np.square(away).mean())), "slopes": slopes}
    answer("mabwiser", found)


main()
