"""Learnable mechanisms: feature maps, Normal-Inverse-Gamma posteriors, tables, and the factorised belief over all of them."""

from aegis.mechanisms.belief import Belief, ModelSettings, Theta, build_belief
from aegis.mechanisms.cells import Cells
from aegis.mechanisms.encoding import Encoder, Scaling, action_scalings, fit_scalings, mechanism_rows
from aegis.mechanisms.features import FEATURES, FeatureMap, Linear, Polynomial
from aegis.mechanisms.mechanism import Function, Mechanism, State
from aegis.mechanisms.nig import NIG, Draw
from aegis.mechanisms.regression import Regression

__all__ = [
    "FEATURES", "NIG", "Belief", "Cells", "Draw", "Encoder", "FeatureMap", "Function", "Linear", "Mechanism", "ModelSettings",
    "Polynomial", "Regression", "Scaling", "State", "Theta", "action_scalings", "build_belief", "fit_scalings", "mechanism_rows",
]  # fmt: skip
