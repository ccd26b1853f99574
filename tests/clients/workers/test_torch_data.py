"""torch.utils.data: a DataLoader batches a dataset of tensors, and the batches are tensors."""

from __future__ import annotations

import numpy as np
import pytest

import gputensor as gt

from .. import close, values

pytestmark = pytest.mark.oracle
data = pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")

IMAGES, LABELS = values(10, 3, 4), np.arange(10)


class Pairs(data.Dataset):
    def __init__(self, place):
        self.images = gt.tensor(IMAGES, device=place)
        self.labels = gt.tensor(LABELS, device=place)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, n):
        return {"image": self.images[n], "label": self.labels[n]}


def test_batches_of_a_dataset(place):
    batches = list(data.DataLoader(Pairs(place), batch_size=4))
    assert [len(b["label"]) for b in batches] == [4, 4, 2]
    for k, batch in enumerate(batches):
        close(batch["image"], IMAGES[4 * k : 4 * k + 4], place)
        close(batch["label"], LABELS[4 * k : 4 * k + 4], place)


def test_a_dataset_of_tensors_shuffled_and_split(place):
    pairs = Pairs(place)
    whole = data.TensorDataset(pairs.images, pairs.labels)
    train, rest = data.random_split(whole, [7, 3])
    seen = []
    for part in (train, rest):
        for image, label in data.DataLoader(part, batch_size=2, shuffle=True):
            close(image, IMAGES[label.cpu().numpy()], place)
            seen += label.tolist()
    assert sorted(seen) == list(range(10))


def test_workers_hand_tensors_over():
    batches = list(data.DataLoader(Pairs("cpu"), batch_size=5, num_workers=1))
    close(gt.cat([b["image"] for b in batches]), IMAGES)


def test_items_without_batches_and_chains():
    for n, item in enumerate(data.DataLoader(Pairs("cpu"), batch_size=None)):
        close(item["image"], IMAGES[n])
    both = data.ConcatDataset([Pairs("cpu"), data.Subset(Pairs("cpu"), [3])])
    close(both[10]["image"], IMAGES[3])
