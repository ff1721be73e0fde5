"""Learnable mechanisms: feature maps, Normal-Inverse-Gamma posteriors, tables, and the factorised belief over all of them."""

from aegis.mechanisms.belief import Belief, Theta, build_belief
from aegis.mechanisms.cells import Cells
from aegis.mechanisms.encoding import Encoder, Scaling, action_scalings, fit_scalings, mechanism_rows
from aegis.mechanisms.feature_map import FeatureMap
from aegis.mechanisms.features import FEATURES, Linear, Polynomial
from aegis.mechanisms.fourier import Fourier
from aegis.mechanisms.mechanism import Function, Mechanism, State
from aegis.mechanisms.nig import NIG, Draw
from aegis.mechanisms.packing import MECHANISM_CLASSES, Packed, pack, unpack
from aegis.mechanisms.regression import Regression
from aegis.mechanisms.rewards import LevelRewards
from aegis.mechanisms.selection import MODELS, MOST_INPUTS, TUNABLE, TUNED, select
from aegis.mechanisms.settings import ModelSettings, Tuned
from aegis.mechanisms.stacked import StackedDraw, StackedNIG, StackedRegression
from aegis.mechanisms.stacked_belief import StackedBelief, equally_many
from aegis.mechanisms.tuning import tune, tune_rewards
from aegis.problem import subtree_means

__all__ = [
    "FEATURES",
    "MECHANISM_CLASSES",
    "MODELS",
    "MOST_INPUTS",
    "NIG",
    "TUNABLE",
    "TUNED",
    "Belief",
    "Cells",
    "Draw",
    "Encoder",
    "FeatureMap",
    "Fourier",
    "Function",
    "LevelRewards",
    "Linear",
    "Mechanism",
    "ModelSettings",
    "Packed",
    "Polynomial",
    "Regression",
    "Scaling",
    "StackedBelief",
    "StackedDraw",
    "StackedNIG",
    "StackedRegression",
    "State",
    "Theta",
    "Tuned",
    "action_scalings",
    "build_belief",
    "equally_many",
    "fit_scalings",
    "mechanism_rows",
    "pack",
    "select",
    "subtree_means",
    "tune",
    "tune_rewards",
    "unpack",
]
