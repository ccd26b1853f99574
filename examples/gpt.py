"""Trains a small character-level transformer on this project's documentation and generates text.

    python examples/gpt.py                       # under two minutes on the CPU
    python examples/gpt.py --steps 200 --prompt "A tensor is "
    python examples/gpt.py --weights gpt.safetensors     # keeps the weights, with PyTorch's names

The model is written as for PyTorch: with another import it runs there. The program writes
`gpt.png`, a plot of the losses on the training text and on the held-out text. It needs matplotlib
for the plot, and safetensors for `--weights`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

# Use one thread: these matrix products are so small that waiting for a second thread on a busy CPU
# takes longer than the time that it saves. BLAS reads this variable when NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import gputensor as torch
from gputensor import nn
from gputensor.nn import functional as F

ROOT = Path(__file__).resolve().parent.parent


# --- text -----------------------------------------------------------------------------------------


class Text:
    """A text whose characters are encoded as numbers. Every tenth section of `stretch` characters
    is held out, so that the training part and the held-out part contain text from all pages."""

    stretch = 2_000

    def __init__(self, text: str) -> None:
        self.characters = sorted(set(text))
        self.number = {c: n for n, c in enumerate(self.characters)}
        numbers = self.encode(text)
        parts = numbers.split(self.stretch)
        self.parts = {
            "training": torch.cat([x for n, x in enumerate(parts) if n % 10 != 9]),
            "held out": torch.cat(parts[9::10]),
        }

    def encode(self, text: str) -> torch.Tensor:
        return torch.tensor([self.number[c] for c in text if c in self.number], dtype=torch.int64)

    def decode(self, numbers: torch.Tensor) -> str:
        return "".join(self.characters[n] for n in numbers.tolist())

    def batch(self, part: str, size: int, length: int, device: str) -> tuple[torch.Tensor, ...]:
        """Return random windows of the text, and the same windows shifted by one character. Both
        tensors have the shape (size, length)."""
        numbers = self.parts[part]
        starts = torch.randint(len(numbers) - length, (size, 1))
        windows = numbers[starts + torch.arange(length + 1)].to(device)
        return windows[:, :-1], windows[:, 1:]


def documentation() -> str:
    """Return the text of README.md and of the pages in docs/."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)


# --- model ----------------------------------------------------------------------------------------


class Attention(nn.Module):
    """Causal self-attention with several heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention followed by a perceptron at each position, both with residual connections."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width),
            nn.GELU("tanh"),
            nn.Linear(4 * width, width),
            nn.Dropout(dropout),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Transformer that maps characters (batch, length) to scores for the next character (batch,
    length, characters)."""

    def __init__(
        self, characters: int, length: int, width: int, heads: int, layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.length = length
        self.token = nn.Embedding(characters, width)
        self.place = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters, bias=False)
        self.apply(self._begin)

    @staticmethod
    def _begin(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        places = torch.arange(numbers.shape[1], device=numbers.device)
        x = self.token(numbers) + self.place(places)
        return self.head(self.norm(self.blocks(x)))

    @torch.no_grad()
    def write(self, numbers: torch.Tensor, count: int, temperature: float) -> torch.Tensor:
        """Append `count` characters, each drawn from the ten with the highest scores."""
        self.eval()
        for _ in range(count):
            scores = self(numbers[None, -self.length :])[0, -1] / temperature
            best, which = torch.topk(scores, 10)
            drawn = torch.multinomial(torch.softmax(best, 0), 1)
            numbers = torch.cat([numbers, which[drawn]])
        self.train()
        return numbers


# --- training -------------------------------------------------------------------------------------


class Run:
    """A model and its training. losses: one for each step. held_out: (step, loss) at some steps."""

    def __init__(self, args: argparse.Namespace) -> None:
        torch.manual_seed(args.seed)
        self.args, self.text = args, Text(documentation())
        self.model = GPT(
            len(self.text.characters), args.length, args.width, args.heads, args.layers, 0.0
        ).to(args.device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.1
        )
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, args.lr, args.steps + 1, pct_start=0.1, cycle_momentum=False
        )
        self.losses: list[float] = []
        self.held_out: list[tuple[int, float]] = []

    def loss(self, part: str) -> torch.Tensor:
        x, y = self.text.batch(part, self.args.batch, self.args.length, self.args.device)
        return F.cross_entropy(self.model(x).flatten(0, 1), y.flatten())

    def train(self) -> None:
        began = time.perf_counter()
        for step in range(1, self.args.steps + 1):
            loss = self.loss("training")
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.schedule.step()
            self.losses.append(loss.item())
            if step % max(1, self.args.steps // 20) == 0 or step == self.args.steps:
                with torch.no_grad():
                    of = [self.loss("held out").item() for _ in range(4)]
                self.held_out.append((step, float(np.mean(of))))
            self.show(step, time.perf_counter() - began)

    def show(self, step: int, passed: float) -> None:
        """Show progress: a bar on a terminal, otherwise a line after each tenth of the steps."""
        is_terminal, steps = sys.stderr.isatty(), self.args.steps
        if not is_terminal and step % max(1, steps // 10):
            return
        filled = 24 * step // steps
        text = f"{'█' * filled}{'░' * (24 - filled)}  step {step}/{steps}"
        text += f"  loss {np.mean(self.losses[-20:]):.3f}"
        if self.held_out:
            text += f"  held out {self.held_out[-1][1]:.3f}"
        text += f"  {passed:.0f} s, {passed / step * (steps - step):.0f} s left"
        end = "" if is_terminal and step < steps else "\n"
        print(f"\r{text:<90}" if is_terminal else text, end=end, file=sys.stderr, flush=True)

    def plot(self, path: str) -> None:
        """Plot the losses on the training text and on the held-out text by step."""
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        style = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}
        with pyplot.rc_context(style):
            figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
            axes.plot(range(1, len(self.losses) + 1), self.losses, color="#b8cde0", lw=0.8,
                      label="training, each step")  # fmt: skip
            steps, losses = zip(*self.held_out)
            axes.plot(steps, losses, color="#c8553d", lw=1.8, marker="o", ms=3.5, label="held out")
            guess = np.log(len(self.text.characters))
            axes.axhline(guess, color="#888888", lw=0.8, ls="--")
            axes.annotate("any character alike", (len(self.losses), guess), (0, -12),
                          textcoords="offset points", ha="right", color="#666666")  # fmt: skip
            axes.annotate(f"{losses[-1]:.2f}", (steps[-1], losses[-1]), (0, -24),
                          textcoords="offset points", ha="right", color="#c8553d",
                          weight="bold")  # fmt: skip
            axes.set(
                xlabel="step",
                ylabel="nats a character",
                ylim=(0, None),
                title=f"{len(self.text.parts['training']):,} characters of documentation",
            )
            axes.legend(frameon=False)
            axes.grid(axis="y", color="#e6e6e6", lw=0.6)
            figure.savefig(path, dpi=150)
            pyplot.close(figure)


def save(model: nn.Module, path: str) -> None:
    """Save the weights as safetensors. A PyTorch model reads them with safetensors' load_file and
    `load_state_dict`."""
    from safetensors.numpy import save_file

    save_file({name: x.cpu().numpy() for name, x in model.state_dict().items()}, path)


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--device", default="cpu", help="cpu, cuda, cuda:1 or a device of your own")
    add("--steps", type=int, default=600)
    add("--batch", type=int, default=16)
    add("--length", type=int, default=64, help="characters that it looks at")
    add("--width", type=int, default=96)
    add("--heads", type=int, default=4)
    add("--layers", type=int, default=3)
    add("--lr", type=float, default=4e-3)
    add("--seed", type=int, default=0)
    add("--prompt", default="A tensor ")
    add("--write", type=int, default=400, help="characters to write at the end")
    add("--temperature", type=float, default=0.8)
    add("--weights", metavar="FILE", help="where to save them, as safetensors")
    add("--plot", metavar="PNG", default="gpt.png", help="'' for none")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> float:
    """Train, write text and plot. Return the loss on the held-out text."""
    args = arguments(given)
    run = Run(args)
    count = sum(p.numel() for p in run.model.parameters())
    print(f"{count:,} parameters on {args.device}", file=sys.stderr)
    began = time.perf_counter()
    run.train()
    passed = time.perf_counter() - began
    if args.weights:
        save(run.model, args.weights)
    if args.plot:
        run.plot(args.plot)
    prompt = run.text.encode(args.prompt).to(args.device)
    print(run.text.decode(run.model.write(prompt, args.write, args.temperature)))
    loss = run.held_out[-1][1]
    print(f"\n{args.steps} steps in {passed:.0f} s: {loss:.3f} nats a character held out")
    return loss


if __name__ == "__main__":
    main()
