"""scikit-learn with `config_context(array_api_dispatch=True)`: fitted attributes and results are
tensors on the inputs' device."""

from __future__ import annotations

import numpy as np
import pytest

from . import child

pytestmark = pytest.mark.full
pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from sklearn import (  # noqa: E402
    config_context, metrics, mixture, model_selection, naive_bayes, pipeline, preprocessing,
)  # fmt: skip
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis  # noqa: E402
from sklearn.kernel_approximation import Nystroem  # noqa: E402
from sklearn.linear_model import (  # noqa: E402
    LogisticRegression, PoissonRegressor, Ridge, RidgeClassifier, RidgeCV,
)  # fmt: skip

drawn = np.random.default_rng(0)
X = drawn.normal(size=(60, 5))
Y = (X[:, 0] + 0.3 * drawn.normal(size=60) > 0).astype(np.int64)
THREE = np.digitize(X[:, 1], [-0.5, 0.5]).astype(np.int64)
GUESS = (X[:, 1] > 0).astype(np.int64)
SCORE = 1 / (1 + np.exp(-X[:, 0]))
R = X @ np.arange(1.0, 6) + 0.1 * drawn.normal(size=60)
P = R + 0.5


def pca(a, **options):
    model = PCA(3, **options).fit(a(X))
    projected = model.transform(a(X))
    return [model.explained_variance_, model.inverse_transform(projected), abs(projected)]


def fitted(model, a, x, y, *names):
    model.fit(a(x), a(y))
    return [getattr(model, n) if n.endswith("_") else getattr(model, n)(a(x)) for n in names]


CASES: dict[str, child.Case] = {
    "PCA": lambda a: pca(a, svd_solver="full"),
    "PCA, whitened": lambda a: pca(a, svd_solver="full", whiten=True),
    "PCA, of the covariance": lambda a: pca(a, svd_solver="covariance_eigh"),
    "PCA, randomized": lambda a: pca(
        a, svd_solver="randomized", power_iteration_normalizer="QR", random_state=0
    ),
    "Ridge": lambda a: fitted(Ridge(solver="svd"), a, X, R, "coef_", "predict"),
    "RidgeCV": lambda a: fitted(RidgeCV(), a, X, R, "coef_", "predict"),
    "RidgeClassifier": lambda a: fitted(RidgeClassifier(solver="svd"), a, X, Y, "predict"),
    "LogisticRegression": lambda a: fitted(LogisticRegression(), a, X, Y, "predict_proba"),
    "PoissonRegressor": lambda a: fitted(PoissonRegressor(), a, X, abs(R), "predict"),
    "LinearDiscriminantAnalysis": lambda a: fitted(
        LinearDiscriminantAnalysis(), a, X, THREE, "predict", "predict_proba", "means_"
    ),
    "GaussianNB": lambda a: fitted(naive_bayes.GaussianNB(), a, X, THREE, "predict_proba"),
    "GaussianMixture": lambda a: (
        mixture.GaussianMixture(2, init_params="random", random_state=0).fit(a(X)).predict(a(X))
    ),
    "Nystroem": lambda a: Nystroem(n_components=5, random_state=0).fit_transform(a(X)),
    "StandardScaler": lambda a: preprocessing.StandardScaler().fit_transform(a(X)),
    "MinMaxScaler": lambda a: preprocessing.MinMaxScaler().fit_transform(a(X)),
    "Normalizer": lambda a: preprocessing.Normalizer().fit_transform(a(X)),
    "Binarizer": lambda a: preprocessing.Binarizer().fit_transform(a(X)),
    "PolynomialFeatures": lambda a: preprocessing.PolynomialFeatures().fit_transform(a(X)),
    "LabelEncoder": lambda a: preprocessing.LabelEncoder().fit_transform(a(THREE)),
    "LabelBinarizer": lambda a: preprocessing.LabelBinarizer().fit_transform(a(THREE)),
    "make_pipeline": lambda a: fitted(
        pipeline.make_pipeline(
            preprocessing.StandardScaler(), PCA(2, svd_solver="full"), Ridge(solver="svd")
        ),
        a,
        X,
        R,
        "predict",
    ),
    "train_test_split": lambda a: model_selection.train_test_split(a(X), a(Y), random_state=0),
    "train_test_split, stratified": lambda a: model_selection.train_test_split(
        a(X), a(Y), stratify=a(Y), random_state=0
    ),
    "cross_val_predict": lambda a: model_selection.cross_val_predict(
        Ridge(solver="svd"), a(X), a(R)
    ),
    "accuracy_score": lambda a: metrics.accuracy_score(a(Y), a(GUESS)),
    "f1_score": lambda a: metrics.f1_score(a(Y), a(GUESS)),
    "precision_recall_fscore_support": lambda a: metrics.precision_recall_fscore_support(
        a(THREE), a(Y), zero_division=0
    )[:3],
    "jaccard_score": lambda a: metrics.jaccard_score(a(Y), a(GUESS)),
    "confusion_matrix": lambda a: metrics.confusion_matrix(a(THREE), a(Y)),
    "precision_recall_curve": lambda a: metrics.precision_recall_curve(a(Y), a(SCORE)),
    "average_precision_score": lambda a: metrics.average_precision_score(a(Y), a(SCORE)),
    "log_loss": lambda a: metrics.log_loss(a(Y), a(SCORE)),
    "brier_score_loss": lambda a: metrics.brier_score_loss(a(Y), a(SCORE)),
    "r2_score": lambda a: metrics.r2_score(a(R), a(P)),
    "mean_squared_error": lambda a: metrics.mean_squared_error(a(R), a(P)),
    "mean_absolute_error": lambda a: metrics.mean_absolute_error(a(R), a(P)),
    "median_absolute_error": lambda a: metrics.median_absolute_error(a(R), a(P)),
    "max_error": lambda a: metrics.max_error(a(R), a(P)),
    "euclidean_distances": lambda a: metrics.pairwise.euclidean_distances(a(X), a(X[:7])),
    "rbf_kernel": lambda a: metrics.pairwise.rbf_kernel(a(X), a(X[:7])),
    "cosine_similarity": lambda a: metrics.pairwise.cosine_similarity(a(X)),
}
ON_CUDA = list(CASES)


@pytest.mark.parametrize("name, place", child.both(CASES, ON_CUDA))
def test_scikit_learn(name, place):
    child.check(__name__, name, place)


if __name__ == "__main__":
    child.run(CASES, ON_CUDA, within=lambda: config_context(array_api_dispatch=True))
