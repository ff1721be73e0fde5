"""DoWhy's graphical causal models: fit linear mechanisms with Gaussian noise, draw from the graph under an intervention."""

import warnings

import networkx as nx
import numpy as np
import pandas as pd
from dowhy import gcm
from scipy import stats
from stopwatch import answer, question, smallest


def model_of(asked):
    """Return the graph with a linear mechanism at every node that has parents, and the data's own law at the others."""
    model = gcm.StructuralCausalModel(nx.DiGraph([tuple(edge) for edge in asked["edges"]]))
    for node in model.graph.nodes:
        if list(model.graph.predecessors(node)):
            noise = gcm.ScipyDistribution(stats.norm)
            model.set_causal_mechanism(node, gcm.AdditiveNoiseModel(gcm.ml.create_linear_regressor(), noise))
        else:
            model.set_causal_mechanism(node, gcm.EmpiricalDistribution())
    return model


def main():
    """Answer one question: times, and means and spreads of what was drawn under the intervention, several times."""
    warnings.simplefilter("ignore")
    gcm.config.disable_progress_bars()
    asked = question()
    data = np.load(asked["path"])
    table = pd.DataFrame({name: data[name] for name in data.files})
    model = model_of(asked)
    fit, _ = smallest(lambda: gcm.fit(model, table), asked["repeats"])
    wanted = {name: (lambda old, new=value: new) for name, value in asked["do"].items()}
    draw, _ = smallest(lambda: gcm.interventional_samples(model, wanted, num_samples_to_draw=asked["samples"]), asked["repeats"])
    drawn = [gcm.interventional_samples(model, wanted, num_samples_to_draw=asked["samples"]) for _ in range(asked["runs"])]
    moments = [[[float(each[name].mean()), float(each[name].std())] for name in asked["shown"]] for each in drawn]
    answer("dowhy", {"fit": fit, "draw": draw, "moments": moments})


main()
