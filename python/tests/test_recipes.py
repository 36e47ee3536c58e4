"""What trainers ask of a loader: the calls that transformers.Trainer, accelerate and Lightning make, as of their
sources. The packages themselves need not be installed."""

import pytest

import pinion

pytest.importorskip("torch")


def test_trainer(photos):
    """transformers.Trainer: lengths, set_epoch, dicts, next on an iterator, batches that are not full."""
    loader = pinion.DataLoader(photos, 20, shuffle=True, device="cpu", transform="rrc:32", names=("pixel_values", "labels"))
    assert len(loader) == 5 and len(loader.dataset) == 96 and loader.batch_size == 20
    order = []
    for epoch in range(2):
        assert hasattr(loader, "set_epoch")
        loader.set_epoch(epoch)
        it = iter(loader)
        batches = [next(it) for _ in range(len(loader))]
        with pytest.raises(StopIteration):
            next(it)
        assert [len(b["labels"]) for b in batches] == [20] * 4 + [16]
        assert all({k: v.to("cpu") is v for k, v in b.items()} == {"pixel_values": True, "labels": True} for b in batches)
        order.append([label for b in batches for label in b["labels"].tolist()])
    assert order[0] != order[1]
    loader.close()


def test_lightning(photos):
    """Lightning: iter at each epoch, without set_epoch; a state by the protocol of torchdata."""
    loader = pinion.DataLoader(photos, 20, shuffle=True, device="cpu", transform="rrc:32")
    for name in ("state_dict", "load_state_dict"):
        assert callable(getattr(loader, name))
    seen = []
    for _ in range(2):
        for number, (_, y) in enumerate(loader):
            seen.append(y.tolist())
            if len(seen) == 7:
                state = loader.state_dict()
    loader.close()
    again = pinion.DataLoader(photos, 20, shuffle=True, device="cpu", transform="rrc:32")
    again.load_state_dict(state)
    assert [y.tolist() for _, y in again] == seen[7:]
    again.close()


def small_model():
    import torch

    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 4))


def test_lightning_itself(photos):
    """Where Lightning is installed: whole epochs, limited ones, and validation beside training."""
    pl = pytest.importorskip("lightning.pytorch")
    import torch

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model, self.seen, self.validated = small_model(), [], 0

        def training_step(self, batch, number):
            x, y = batch
            self.seen.append(y.tolist())
            return torch.nn.functional.cross_entropy(self.model(x), y % 4)

        def validation_step(self, batch, number):
            self.validated += len(batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 1e-2)

    quiet = dict(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    with pinion.DataLoader(photos, 16, shuffle=True, device="cpu", transform="rrc:32") as loader, pinion.DataLoader(
        photos, 16, device="cpu", transform="center:32"
    ) as validation:
        whole, limited = Model(), Model()
        pl.Trainer(max_epochs=2, limit_val_batches=0, **quiet).fit(whole, loader)
        assert len(whole.seen) == 12 and whole.seen[:6] != whole.seen[6:]
        pl.Trainer(max_epochs=3, limit_train_batches=2, num_sanity_val_steps=0, **quiet).fit(limited, loader, validation)
        assert len(limited.seen) == 6 and limited.validated == 3 * 96


def test_accelerate_itself(photos):
    """Where accelerate is installed: prepare leaves the loader as it is."""
    accelerate = pytest.importorskip("accelerate")
    import torch

    accelerator, model = accelerate.Accelerator(cpu=True), small_model()
    with pinion.DataLoader(photos, 16, shuffle=True, device="cpu", transform="rrc:32") as loader:
        model, optimizer, prepared = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 1e-2), loader)
        for _ in range(2):
            seen = 0
            for x, y in prepared:
                accelerator.backward(torch.nn.functional.cross_entropy(model(x), y % 4))
                optimizer.step()
                optimizer.zero_grad()
                seen += len(y)
            assert seen == 96


def test_accelerate(photos):
    """accelerate.prepare is not needed: ranks are arguments."""
    parts = []
    for rank in range(2):
        with pinion.DataLoader(photos, 8, shuffle=True, device="cpu", transform="rrc:32", rank=rank, world_size=2) as loader:
            parts.append(sum(len(y) for _, y in loader))
    assert parts == [48, 48]


def test_ranks_of_torch_distributed(photos, child, tmp_path):
    """A process group that begins after the loader was made, and without torchrun's environment, as Lightning does it."""
    child(
        """
        import os, sys, tempfile, torch, pinion
        loader = pinion.DataLoader(sys.argv[1], 8, device="cpu", transform="rrc:32")
        pid = os.fork()
        rank = 0 if pid else 1
        torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
        n = torch.tensor([sum(len(y) for _, y in loader)])
        assert (loader.rank, loader.world_size, int(n)) == (rank, 2, 48)
        torch.distributed.all_reduce(n)
        assert int(n) == 96
        loader.close()
        if pid: assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        """,
        photos,
        tmp_path / "group",
        env={"GLOO_SOCKET_IFNAME": "lo"},
    )
