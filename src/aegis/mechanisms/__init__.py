"""Learnable mechanisms: feature maps, Normal-Inverse-Gamma posteriors, tables, and the factorised belief over all of them."""

from aegis.mechanisms.base import Mechanism, MechanismDraw
from aegis.mechanisms.belief import (
    FEATURES,
    MODELS,
    MOST_INPUTS,
    TUNABLE,
    TUNED,
    Belief,
    ModelSettings,
    Theta,
    Tuned,
    availability_name,
    build_belief,
)
from aegis.mechanisms.cell_tables import Cells
from aegis.mechanisms.encoding import Encoder, Scaling, fit_scalings, mechanism_rows
from aegis.mechanisms.features import FeatureMap, Linear, Polynomial
from aegis.mechanisms.fourier import Fourier
from aegis.mechanisms.model_selection import select_models, tune, tune_rewards
from aegis.mechanisms.regression import NIG, Draw, Regression, RegressionDraw
from aegis.mechanisms.reward_models import LevelRewards
from aegis.mechanisms.run_stacks import FourierStack, StackedBelief, StackedDraw, StackedNIG, StackedRegression, has_equal_counts
from aegis.mechanisms.serialisation import MECHANISM_CLASSES, Packed, pack_value, unpack_value

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
    "FourierStack",
    "LevelRewards",
    "Linear",
    "Mechanism",
    "MechanismDraw",
    "ModelSettings",
    "Packed",
    "Polynomial",
    "Regression",
    "RegressionDraw",
    "Scaling",
    "StackedBelief",
    "StackedDraw",
    "StackedNIG",
    "StackedRegression",
    "Theta",
    "Tuned",
    "availability_name",
    "build_belief",
    "fit_scalings",
    "has_equal_counts",
    "mechanism_rows",
    "pack_value",
    "select_models",
    "tune",
    "tune_rewards",
    "unpack_value",
]
