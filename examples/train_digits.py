"""Trains a multilayer perceptron on scikit-learn's handwritten digits.

    python examples/train_digits.py                        # seconds; 98 % of held-out digits
    python examples/train_digits.py --device cuda          # on a GPU
    python examples/train_digits.py --device cuda --graph  # each step is one launch: a CUDA graph
    GPUTENSOR_CUDA=emulator python examples/train_digits.py --device cuda --epochs 1

It writes `train_digits.png`, a plot of the loss at each step and of the accuracy after each epoch.
With `--checkpoint FILE` it also saves its state. A run that continues with `--resume FILE` gives
bitwise the results of an uninterrupted run. Needs scikit-learn and, for the plot, matplotlib (`pip
install scikit-learn matplotlib`).
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Iterator

# Use one thread: these matrix products are so small that a second thread saves no time, and waiting
# for it on a busy CPU takes long. BLAS reads this variable when NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import gputensor as gt
from gputensor.nn import functional as F

SIDE, PIXELS, CLASSES = 8, 64, 10
HELD_OUT = 360  # number of held-out digits, a fifth of all


# --- data -----------------------------------------------------------------------------------------


class Digits:
    """1,797 digits of 8 x 8 pixels, shuffled by `seed`. A fifth of them is held out."""

    def __init__(self, device: str, seed: int) -> None:
        try:
            from sklearn.datasets import load_digits
        except ModuleNotFoundError:
            sys.exit(
                "train_digits: the digits come with scikit-learn; "
                "pip install scikit-learn matplotlib"
            )

        pixels, classes = load_digits(return_X_y=True)
        order = np.random.default_rng(seed).permutation(len(pixels))
        pixels, classes = (pixels[order] / 16).astype(np.float32), classes[order].astype(np.int64)
        self.device, self.seed = device, seed
        self.pixels, self.classes = pixels[HELD_OUT:], classes[HELD_OUT:]
        self.held_out = self.enter(pixels[:HELD_OUT]), self.enter(classes[:HELD_OUT])

    def enter(self, array: np.ndarray) -> gt.Tensor:
        return gt.from_numpy(array).to(self.device)

    def batches(self, epoch: int, size: int) -> Iterator[tuple[gt.Tensor, gt.Tensor]]:
        """Yield batches of all digits, some of them moved by a pixel. The batches depend only on
        seed and epoch, so that a run can be resumed."""
        random = np.random.default_rng([self.seed, epoch])
        order = random.permutation(len(self.classes))
        x = self.enter(moved(self.pixels[order], random))
        y = self.enter(self.classes[order])
        yield from zip(x.split(size), y.split(size))


def moved(pixels: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return the digits, each unchanged or moved by one pixel in any direction."""
    down, right = random.choice([-1, 0, 1], (2, len(pixels)), p=[0.25, 0.5, 0.25]) + 1
    padded = np.pad(pixels.reshape(-1, SIDE, SIDE), ((0, 0), (1, 1), (1, 1)))
    rows = down[:, None, None] + np.arange(SIDE)[:, None]
    columns = right[:, None, None] + np.arange(SIDE)
    return padded[np.arange(len(pixels))[:, None, None], rows, columns].reshape(-1, PIXELS)


# --- model ----------------------------------------------------------------------------------------


class Perceptron:
    """Layers of weights and biases with a ReLU between them."""

    def __init__(self, sizes: list[int], device: str) -> None:
        self.parameters: list[gt.Tensor] = []
        for n_in, n_out in itertools.pairwise(sizes):
            bound = n_in**-0.5
            for shape in ((n_out, n_in), (n_out,)):
                # the numbers are drawn on the CPU, so that all devices start with equal weights
                drawn = (gt.rand(shape) * 2 - 1) * bound
                self.parameters.append(drawn.to(device).requires_grad_())

    def __call__(self, x: gt.Tensor) -> gt.Tensor:
        """Map pixels (N, pixels) to log-probabilities (N, classes)."""
        *layers, (weight, bias) = zip(self.parameters[::2], self.parameters[1::2])
        for w, b in layers:
            x = F.relu(F.linear(x, w, b))
        return F.log_softmax(F.linear(x, weight, bias), 1)

    @gt.no_grad()
    def accuracy(self, x: gt.Tensor, y: gt.Tensor) -> float:
        """Return the fraction of digits that are classified correctly."""
        return (self(x).argmax(1) == y).to(gt.float32).mean().item()


def optimizer_of(
    name: str, parameters: list[gt.Tensor], lr: float | gt.Tensor | None
) -> gt.optim.Optimizer:
    if name == "sgd":
        return gt.optim.SGD(
            parameters, lr=0.1 if lr is None else lr, momentum=0.9, weight_decay=1e-4
        )
    on_device = parameters[0].is_cuda  # a CUDA graph needs Adam's step count on the device
    return gt.optim.Adam(parameters, lr=0.003 if lr is None else lr, capturable=on_device)


# --- training -------------------------------------------------------------------------------------


class Captured:
    """CUDA graph of a training step on a full batch. Values that change, such as the learning rate,
    are copied into tensors that the graph reads.

    The graph is captured after two ordinary steps, which load all kernels and create all state.
    """

    def __init__(self, run: Run) -> None:
        # float64, because the learning rate of a step without a graph is a Python float
        self.run, self.rate = run, gt.zeros((), dtype=gt.float64, device=run.args.device)
        self.steps = 0
        self.graph = gt.cuda.CUDAGraph()

    def __call__(self, x: gt.Tensor, y: gt.Tensor, lr: float) -> gt.Tensor:
        self.rate.fill_(lr)
        if self.steps < 2 or len(y) < self.run.args.batch:
            self.steps += 1
            return self.run.eager(x, y, self.rate)
        if self.steps == 2:
            self.x, self.y, self.steps = x.clone(), y.clone(), 3
            with gt.cuda.graph(self.graph):
                self.loss = self.run.eager(self.x, self.y, self.rate)
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.loss.clone()


class Run:
    """A training run: the model, its optimizer and its history.

    lr: the learning rate at the start, which decreases linearly to 0 over all epochs. losses: one
    for each step. accuracies: on the held-out digits, one for each epoch.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        gt.manual_seed(args.seed)
        self.args = args
        self.digits = Digits(args.device, args.seed)
        self.model = Perceptron([PIXELS, *args.hidden, CLASSES], args.device)
        self.optimizer = optimizer_of(args.optimizer, self.model.parameters, args.lr)
        self.lr = self.optimizer.param_groups[0]["lr"]
        self.step, self.losses, self.accuracies = 0, [], []
        self.per_epoch = -(-len(self.digits.classes) // args.batch)
        self.make_step = Captured(self) if args.graph else self.eager

    def train(self, steps: int) -> None:
        """Train until this number of steps has been done."""
        began, made = time.perf_counter(), self.step
        while self.step < steps:
            epoch, done = divmod(self.step, self.per_epoch)
            losses = []
            for number, (x, y) in enumerate(self.digits.batches(epoch, self.args.batch)):
                if number < done or self.step == steps:
                    continue
                lr = self.lr * (1 - self.step / (self.args.epochs * self.per_epoch))
                losses.append(self.make_step(x, y, lr))
                self.step += 1
                self.show(steps, made, began)
            self.losses += gt.stack(losses).tolist()  # the host waits for a GPU only here
            if self.step % self.per_epoch == 0:
                self.accuracies.append(self.model.accuracy(*self.digits.held_out))

    def eager(self, x: gt.Tensor, y: gt.Tensor, lr: float | gt.Tensor) -> gt.Tensor:
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.zero_grad()
        loss = F.nll_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def show(self, steps: int, made: int, began: float) -> None:
        """Show progress: a bar on a terminal, otherwise a line after each epoch."""
        is_terminal = sys.stderr.isatty()
        if self.args.quiet or not is_terminal and self.step % self.per_epoch:
            return
        passed = time.perf_counter() - began
        left = passed / max(self.step - made, 1) * (steps - self.step)
        filled = 24 * self.step // steps
        text = f"{'█' * filled}{'░' * (24 - filled)}  step {self.step}/{steps}"
        if self.losses:
            text += f"  loss {np.mean(self.losses[-self.per_epoch :]):.3f}"
        if self.accuracies:
            text += f"  held out {self.accuracies[-1]:.1%}"
        text += f"  {passed:.0f} s, {left:.0f} s left"
        end = "" if is_terminal and self.step < steps else "\n"
        print(f"\r{text:<78}" if is_terminal else text, end=end, file=sys.stderr, flush=True)

    # --- checkpoints ------------------------------------------------------------------------------

    def save(self, path: str) -> None:
        """Save all state on which the next step depends."""
        kept = {name: getattr(self.args, name) for name in ("seed", "batch", "hidden", "optimizer")}
        gt.save({
            "settings": kept, "step": self.step, "losses": self.losses,
            "accuracies": self.accuracies,
            "parameters": [p.detach() for p in self.model.parameters],
            "optimizer": self.optimizer.state_dict(),
        }, path)  # fmt: skip

    def load(self, path: str) -> None:
        found = gt.load(path)
        self.step, self.losses, self.accuracies = (
            found["step"],
            found["losses"],
            found["accuracies"],
        )
        with gt.no_grad():
            for p, saved in zip(self.model.parameters, found["parameters"]):
                p.copy_(saved)
        self.optimizer.load_state_dict(found["optimizer"])

    # --- picture ----------------------------------------------------------------------------------

    def plot(self, path: str) -> None:
        """Plot the loss by step, and the error on the held-out digits by epoch."""
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
        from matplotlib.ticker import PercentFormatter

        ink, pale, warm = "#1f4e79", "#b8cde0", "#c8553d"
        with pyplot.rc_context(
            {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
        ):
            figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
            steps = np.arange(1, len(self.losses) + 1)
            left.plot(steps, self.losses, color=pale, lw=0.8, label="each step")
            window = max(1, min(self.per_epoch, len(self.losses)))
            smooth = np.convolve(self.losses, np.ones(window) / window, "valid")
            left.plot(
                steps[window - 1 :], smooth, color=ink, lw=1.8, label="mean of an epoch's steps"
            )
            left.set(yscale="log", xlabel="step", ylabel="loss", title="Training loss")
            left.legend(frameon=False)
            epochs = np.arange(1, len(self.accuracies) + 1)
            errors = 1 - np.array(self.accuracies)
            right.plot(epochs, errors, color=warm, lw=1.8, marker="o", ms=3.5)
            right.axhline(0.03, color="#888888", lw=0.8, ls="--")
            right.annotate("3 %", (1, 0.03), (0, 4), textcoords="offset points", color="#666666")
            if len(errors):
                right.annotate(
                    f"{self.accuracies[-1]:.1%} recognised", (epochs[-1], errors[-1]), (0, 10),
                    textcoords="offset points", ha="right", color=warm, weight="bold",
                )  # fmt: skip
            right.set(
                ylim=(0, None), xlabel="epoch", ylabel="error", title=f"{HELD_OUT} held-out digits"
            )
            right.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
            for axes in (left, right):
                axes.grid(axis="y", color="#e6e6e6", lw=0.6)
                axes.set_axisbelow(True)
            figure.savefig(path, dpi=150)
            pyplot.close(figure)


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--device", default="cpu", help="cpu, cuda, cuda:1 or a device of your own")
    add("--optimizer", choices=("sgd", "adam"), default="sgd")
    add("--lr", type=float, help="learning rate; the optimizer's own unless given")
    add("--hidden", type=int, nargs="*", default=[256, 128], help="sizes of the hidden layers")
    add("--batch", type=int, default=64)
    add("--epochs", type=int, default=40)
    add("--graph", action="store_true", help="launch each step as a whole, by a CUDA graph")
    add("--steps", type=int, help="stop after so many steps, instead of epochs")
    add("--seed", type=int, default=0)
    add("--checkpoint", metavar="FILE", help="where to save at the end")
    add("--resume", metavar="FILE", help="go on from a checkpoint made with the same settings")
    add("--plot", metavar="PNG", default="train_digits.png", help="'' for none")
    add("--quiet", action="store_true", help="no progress")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> float:
    """Train, save and plot. Return the accuracy on the held-out digits."""
    args = arguments(given)
    run = Run(args)
    if args.resume:
        run.load(args.resume)
    began = time.perf_counter()
    run.train(args.steps or args.epochs * run.per_epoch)
    passed = time.perf_counter() - began
    accuracy = run.model.accuracy(*run.digits.held_out)
    if args.checkpoint:
        run.save(args.checkpoint)
    if args.plot and run.losses:
        run.plot(args.plot)
    print(
        f"{run.step} steps on {args.device} in {passed:.1f} s: {accuracy:.2%} of {HELD_OUT} "
        f"held-out digits"
    )
    return accuracy


if __name__ == "__main__":
    main()
