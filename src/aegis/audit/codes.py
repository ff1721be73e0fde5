"""Every code that a finding can have: what it means and what to do. `docs/audit.md` prints this table."""

from __future__ import annotations

from dataclasses import dataclass

from aegis.ope import INCUMBENT_FIX, INCUMBENT_IMPOSSIBLE


@dataclass(frozen=True, slots=True)
class Code:
    """What a code means, and what to do about it."""

    meaning: str
    fix: str


FOLLOWS_MOVING_LOG = "follows-moving-log"  # of a candidate that is capped by, or falls back on, probabilities of several policies
SEVERAL_LOGGERS = "several-loggers"  # what a gain is compared with is then an average, unless an incumbent is declared
PROPENSITIES_MOVE = "propensities-move"  # a split by hash is then refused
CODES: dict[str, Code] = {
    # ---- propensities
    "no-propensity": Code(
        "The problem declares no propensity for a level, so that nothing can be certified there.",
        "log the probability with which the controller chose its action and name it under 'propensity'; or certify a scope "
        "without this level",
    ),
    "estimated-propensities": Code(
        "The propensities were fitted, not logged: they give an estimate; a certificate only within a declared factor.",
        "log the probabilities that the controller used; or declare by which factor they may be wrong, 'wrong_by: 1.5' beside "
        "'estimated: true'; or certify a scope without this level",
    ),
    "miscalibrated-propensities": Code(
        "Actions were taken more or less often than their logged propensities say, beyond chance.",
        "log the probability that the controller really used, given everything it looked at; see that every context was known "
        "before the decision, and that columns are not swapped, scaled or taken from another version",
    ),
    "doubtful-propensities": Code(
        "There is some evidence that actions were not taken as often as their logged propensities say, too little to refuse.",
        "see that propensities are those that the controller used, that every context was known before the decision and that no "
        "rows were left out of the log, such as those of failed runs; log more episodes, which will tell",
    ),
    "action-shares": Code(
        "Over the whole log some action was taken more or less often than its logged propensities say; a fixed-sample test.",
        "see that no rows were left out after their outcome was known, such as those of failed runs, and that propensities are "
        "those that the controller used",
    ),
    "rounded-actions": Code(
        "Actions declared as an interval lie on a coarse lattice, so that windows hold more or less than their length says.",
        "log the exact action, with all its digits; or make it a 'grid' and log the probability of each of its points",
    ),
    "undeclared-atom": Code(
        "One number of an interval was taken again and again: the controller has a probability there, not a density.",
        "name it under 'atoms' of the action and log its probability there; a controller that clips has one at either end",
    ),
    "weights-below-one": Code(
        "Weights of some actions average below one: they are not always possible, or their propensities are too high.",
        "if every available action can be taken in every context, declare its lowest probability as propensity 'least' (it is "
        "then tested); otherwise gains of candidates that need these actions, and gains over an incumbent that takes them, come "
        "out smaller than they are",
    ),
    "propensities-not-sequential": Code(
        "Given the earlier decisions of an episode the propensities are off; given the actions above they may be right.",
        "log the probability given all earlier decisions of the episode; if one of several policies is drawn for each episode, "
        "certify with the episode as the unit",
    ),
    "actions-held": Code(
        "Episodes take the action of an earlier episode more or less often than propensities say: it is held, or alternates.",
        "name a 'cluster' of the episodes that share a setting; or log the probability given the previous action; if episodes "
        "are not in the order in which they started, name a 'time' column",
    ),
    "propensity-below-least": Code(
        "A logged propensity is below the declared 'least'.",
        "correct 'least' in the problem file, or the log",
    ),
    "deterministic-level": Code(
        "All actions of a level were taken with probability one: no gain can be certified there.",
        "mix exploration into the controller at this level, such as a uniform choice at a rate of 0.05, and log the "
        "probabilities; or certify a scope without this level",
    ),
    "partly-deterministic": Code(
        "Some decisions had only one possible action although others were available: no gain can be certified from them.",
        "explore in these contexts as well, if they matter",
    ),
    "rounded-propensities": Code(
        "The propensities look rounded; weights are off by up to the rounding error.",
        "log the probabilities with all their digits",
    ),
    # ---- comparator
    "identical": Code(
        "A candidate gives the same probabilities as its comparator on every certified decision: there is no gain to certify.",
        "keep the incumbent: the two are one policy in this log; if they should differ, check that the policy is the one you "
        "meant and that its probabilities are not those of the log",
    ),
    INCUMBENT_IMPOSSIBLE: Code(
        "Under the stated incumbent a logged action cannot have the logged probability, or it is not available there.",
        INCUMBENT_FIX,
    ),
    FOLLOWS_MOVING_LOG: Code(
        "A candidate follows the logged probabilities, which are not those of one policy: deployed, it is not one policy either.",
        "state the incumbent and learn a candidate that stays close to it (aegis learn --kind stepped), or a greedy one",
    ),
    "incumbent-unreached": Code(
        "The stated incumbent takes actions that the log never takes; they count as if the incumbent earned the most there.",
        "explore around the incumbent, so that its own actions are logged; or correct 'incumbent' in the problem file",
    ),
    # ---- causes
    "backdoor": Code(
        "The graph says that something unobserved acts on the action and on the reward.",
        "log what the controller looked at and add it to the context; or correct 'latents'",
    ),
    "carry-over": Code(
        "A decision affects later decisions of its episode, but the problem says 'carry_over: none'.",
        "declare 'carry_over: within'",
    ),
    "behaviour-reacts": Code(
        "The controller reacts to earlier decisions of the episode, so that rewards cannot tell whether decisions carry over.",
        "nothing, if decisions do not affect later ones; otherwise declare 'carry_over: within'",
    ),
    "rewards-not-compared": Code(
        "The controller reacts to other decisions of an episode: whether actions act on later rewards could not be tested.",
        "declare 'least', the smallest probability with which the controller takes an action, or log the probabilities of all "
        "actions; or declare 'carry_over: within', which needs no such test",
    ),
    "episodes-not-compared": Code(
        "The controller reacts to other episodes: whether actions act on the rewards of later episodes could not be tested.",
        "if episodes may affect each other, make one episode of them and declare 'carry_over: within'; otherwise nothing",
    ),
    "siblings-interfere": Code(
        "A decision acts on rewards of other decisions of its episode, in an order that 'carry_over' does not allow.",
        "write what the decisions earn together into each of their rows and declare whose reward it is ('per: episode', or the "
        "level above); if decisions act on later ones only, number them in a 'decision' column and declare 'carry_over: within'",
    ),
    "episodes-interfere": Code(
        "An episode affects the one after it, so that episodes are not independent.",
        "make one episode of the episodes that affect each other and declare 'carry_over: within'; a 'cluster' does not repair "
        "this: it allows for episodes that are alike, not for episodes that affect each other",
    ),
    "neighbours-interfere": Code(
        "Episodes act on the rewards of their neighbours, such as episodes that share a capacity.",
        "decide once for a whole window of episodes that affect each other, and make the window the episode; a 'cluster' does "
        "not repair this",
    ),
    "cluster-interferes": Code(
        "Episodes of one cluster act on each other's rewards; a cluster repairs dependence, never interference.",
        "make one episode of the cluster, number its decisions in a 'decision' column and declare 'carry_over: within'; or write "
        "what it earns in all into each of its rows and declare 'per: episode'",
    ),
    "order-unknown": Code(
        "Episodes are sorted by a result and have no time: whether one affects the next, or holds its action, was not tested.",
        "name a 'time' column, or leave the log in the order in which episodes started",
    ),
    "size-follows-action": Code(
        "How many decisions follow depends on an action taken among them, so that means over them are biased.",
        "make a reward of the whole unit ('per: episode', or the level above) out of the sum, whose number is not divided by",
    ),
    "size-follows-reward": Code(
        "How many decisions follow depends on the rewards among them (such as stopping after a success).",
        "make a reward of the whole unit ('per: episode', or the level above) out of the sum, whose number is not divided by",
    ),
    "cluster-size-follows-reward": Code(
        "How many episodes a cluster has depends on their rewards, so that means over clusters are biased.",
        "declare the largest number of episodes, 'cluster: {column: ..., most: ...}'; certificates are then about totals",
    ),
    "cluster-larger-than-declared": Code(
        "A cluster has more episodes than the declared largest number.",
        "correct 'cluster: most' in the problem file, from knowledge of the plant",
    ),
    # ---- rewards
    "no-reward-range": Code(
        "The problem declares no range of the reward, without which nothing can be certified.",
        "declare 'range: [low, high]' under 'reward', from knowledge of the plant, not from the log",
    ),
    "reward-outside-range": Code(
        "Rewards lie outside their declared range, which voids any certificate.",
        "correct the range or the log; or ask for clipping ('clip: true'): the certificate then speaks of the clipped reward",
    ),
    "reward-clipped": Code(
        "Rewards lie outside their declared range and are clipped: the certificate speaks of the clipped reward.",
        "nothing, if the clipped reward is what counts; otherwise widen the range",
    ),
    "range-too-wide": Code(
        "The declared range is much wider than the rewards; certificates take longer in proportion.",
        "declare a narrower range if the plant allows it, or a reward that is capped",
    ),
    "range-from-data": Code(
        "The declared range of the reward ends exactly at the smallest and the largest reward of the log.",
        "declare the range from knowledge of the plant: the worst and the best that can happen, not what has happened; a range "
        "that is declared anew after a look at these data needs fresh data",
    ),
    "guard-outside-range": Code(
        "Values of a guard lie outside its declared range.",
        "correct the range of the guard or the log",
    ),
    "missing-rewards": Code(
        "Rewards are missing for good; they are counted at their worst.",
        "find out why they are missing; if they are only late, name a flag under 'closed'",
    ),
    "open-units": Code(
        "Some episodes still wait for a reward; a certificate leaves them out, and all that started after the first of them.",
        "wait, or certify what is closed",
    ),
    "reward-repeated": Code(
        "The reward column repeats one value for a whole episode or outer decision, but is declared for smaller units.",
        "declare what the reward belongs to: 'per: episode', or 'per' and the name of the level",
    ),
    "reward-at-end": Code(
        "The reward comes only with the last row of an episode or outer decision, but is declared for smaller units.",
        "copy the value into all rows of the unit and declare what it belongs to: 'per: episode', or 'per' and the name of the "
        "level; or declare 'carry_over: within'",
    ),
    # ---- the log as a whole
    "few-units": Code(
        "There are very few independent units.",
        "collect more episodes; `not yet` is the best that can be expected of so few",
    ),
    "drift": Code(
        "The first half of the log differs from the second half: a certificate is about the average over the log.",
        "if the plant has changed for good, certify on the later part only",
    ),
    "several-versions": Code(
        "Several versions of the behaviour policy wrote the log; a gain is over their average.",
        "certify on the episodes of the version that would be replaced",
    ),
    SEVERAL_LOGGERS: Code(
        "The logged propensities are not one function of the context: several policies took turns, or one changed.",
        "declare who acts if nothing is handed over ('incumbent' in the problem file); without it gains are over the average of "
        "the log",
    ),
    "propensities-move": Code(
        "At like contexts the logged propensities move in time or follow earlier rewards: the controller learns, or was changed.",
        "name the column that tells when episodes started under 'time', and learn kind 'greedy' with a split in time "
        "(aegis learn --split time); a policy that was learned from a split by hash is certified on other data only (--fresh)",
    ),
    "duplicated-rows": Code(
        "Rows repeat the row before them more often than chance explains.",
        "see whether rows were exported twice; name a 'decision' id at the innermost level so that this is noticed",
    ),
    "duplicated-episodes": Code(
        "Episodes are equal to others in all they hold, beyond chance: each would be counted as evidence of its own.",
        "give each episode once; see whether a file was copied, or rows were exported twice under other ids",
    ),
    "episodes-redone": Code(
        "Episodes begin with exactly the context of an earlier one and take its action, more often than their propensities say.",
        "log every attempt as it was drawn; count an episode that failed with what it earned, and draw the action of the next "
        "one anew",
    ),
    # ---- the candidate
    "outside-support": Code(
        "The candidate takes actions that the log never takes, or that are not available; they are counted at their worst.",
        "learn a candidate that stays within the log's support: aegis learn --kind capped; log 0 for unavailable actions",
    ),
    "poor-overlap": Code(
        "The candidate differs so much from the log that a small part of it carries all the weight.",
        "learn a candidate closer to the log: aegis learn --kind capped --cap 2; or explore more",
    ),
    # ---- the certificate
    "cannot-certify": Code(
        "An assumption of the certificate does not hold in these data, or was not declared.",
        "see the message",
    ),
    "doubtful-weights": Code(
        "There is some evidence that a candidate's weights average more than one, which those of no policy do; too little to "
        "refuse.",
        "see first that every context was known before the decision (one that is known only after it follows the action), and "
        "that logged probabilities or densities are not too low; then that columns are not swapped, that probabilities sum to "
        "one, "
        "and that no rows were lost, such as those of failed runs; log more episodes, which will tell",
    ),
    "earlier-looks": Code(
        "Other requests were looked at on these data before. This one was fixed before their results, and the risks add up to "
        "the sum that is stated.",
        "nothing, if the request was fixed before; report the sum of risks with the certificate",
    ),
    "chosen-after-results": Code(
        "There are results on these data, or on a part of them, and the request was not registered before the first one. If it "
        "was shaped by results, no risk can be stated, and AEGIS shows no numbers.",
        "certify it on data that came later; or, if it was fixed before the first result, declare so in writing with "
        "--fixed-before and say when and where; next time register every request before the first result (aegis certify ... "
        "--register), or name all candidates in one request",
    ),
    "risk-spent": Code(
        "The risk asked for is that of all statements on these data together, and earlier statements have spent it.",
        "ask for a larger --delta, the risk of all statements together; or certify on fresh data, such as the new episodes alone",
    ),
    "damaged-ledger": Code(
        "A file of the ledger cannot be read at some place: looks that were written there can no longer be counted.",
        "restore the file from a copy of the folder; if there is none, say so where you report the certificate, and move the "
        "file away to go on without this warning",
    ),
    "other-method": Code(
        "The method that was asked for does not apply to a candidate and scope; another one was used, which is valid too.",
        "leave out --method to have the sharpest one that applies; or log the probabilities of all actions, and give a candidate "
        "that knows those of all actions (not 'columns:')",
    ),
    "nothing-certified": Code(
        "No unit is left to certify on: all are on the prior side of the split, or still open.",
        "log more episodes, or learn from a smaller share of them",
    ),
    "no-fingerprints": Code(
        "A learned policy does not say which episodes it has seen but by their ids, which may have been changed since.",
        "learn it again, so that episodes are known again by their content; or see that the ids of the log are those of learning",
    ),
}

# What a capped policy needs of a log.
CAPPED_NEEDS = (
    "it needs the probabilities of all actions, logged in 'columns' or declared by 'shares', 'policy: uniform' or 'base'"
)

# What to do about an action on an interval without a logged density.
NO_DENSITY = (
    "log the density with which the controller drew its action, per unit of the action, and name it: 'propensity: {column: ..., "
    "density: true}'; or certify a scope without this level"
)
