"""Frameworks that train, explain, adapt and sample networks."""

from __future__ import annotations

from typing import Any

from .program import Inputs, Program, Row

NEEDS = (
    "transformers==5.23.0", "tokenizers==0.23.3", "huggingface-hub==2.4.0", "regex==2026.11.19",
    "httpx2==2.16.2", "httpcore2==2.16.2", "truststore==0.10.5", "anyio==4.16.0", "h11==0.16.0",
    "typer==0.29.2", "rich==15.0.0", "shellingham==1.5.4", "annotated-doc==0.0.7",
    "tqdm==4.70.1", "lightning-utilities==0.15.3", "torchmetrics==1.9.0", "fsspec==2026.9.0",
    "typing-extensions==4.16.0", "filelock==4.3.1", "requests==2.34.2", "urllib3==2.8.0",
    "certifi==2026.10.19.post1", "idna==3.20", "charset-normalizer==3.5.3", "psutil==7.2.2",
    "scikit-learn==1.9.1", "joblib==1.6.0", "threadpoolctl==3.8.0", "tabulate==0.10.0",
    "jinja2==3.1.6", "markupsafe==3.0.4", "pyparsing==3.3.3", "xxhash==4.1.0",
    "aiohttp==3.14.5", "aiosignal==1.4.0", "aiohappyeyeballs==2.7.1", "attrs==26.1.0",
    "frozenlist==1.8.0", "multidict==7.2.1", "propcache==0.5.4", "yarl==1.25.1",
    "importlib-metadata==10.2.0", "zipp==4.1.2", "linear-operator==0.6.1", "jaxtyping==0.3.11",
    "wadler-lindig==0.1.8", "mpmath==1.4.1", "pyro-api==0.1.2", "opt-einsum==3.4.0",
    "multipledispatch==1.0.0", "pyre-extensions==0.0.32", "typing-inspect==0.9.0",
    "mypy-extensions==1.2.0", "trampoline==0.1.2", "boltons==26.2.0", "networkx==3.6.1",
)  # fmt: skip


def network() -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))


def weights_after(model: Any) -> dict[str, Any]:
    """Return all weights in one tensor, so that a weight that changes only by rounding is
    relatively small."""
    import torch

    values = [x.detach().reshape(-1) for x in model.state_dict().values() if x.is_floating_point()]
    return {"weights": torch.cat(values)}


# --- trainers -------------------------------------------------------------------------------------


def lightning(draw: Inputs) -> Program:
    import logging

    import torch
    from lightning import pytorch as pl
    from torch.utils.data import DataLoader, TensorDataset

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Classifier(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inside = network()

        def training_step(self, batch: Any, place: int) -> Any:
            x, y = batch
            loss = torch.nn.functional.cross_entropy(self.inside(x), y)
            self.log("loss", loss)
            return loss

        def validation_step(self, batch: Any, place: int) -> None:
            self.log("seen", self.inside(batch[0]).mean())

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
            return {"optimizer": optimizer, "lr_scheduler": schedule}

    model = Classifier()
    data = TensorDataset(draw.normal(24, 4), draw.ints(3, 24))

    def call() -> Any:
        trainer = pl.Trainer(
            max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=True, gradient_clip_val=0.5,
        )  # fmt: skip
        trainer.fit(model, DataLoader(data, 8), DataLoader(data, 12))
        return {**trainer.callback_metrics, **weights_after(model)}

    return Program(model, (), call=call, grad=False)


def ignite(draw: Inputs) -> Program:
    import torch
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
    from ignite.metrics import Accuracy, Loss
    from torch.utils.data import DataLoader, TensorDataset

    model = network()
    loss = torch.nn.CrossEntropyLoss()
    batches = DataLoader(TensorDataset(draw.normal(24, 4), draw.ints(3, 24)), 8)

    def call() -> Any:
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        trainer = create_supervised_trainer(model, optimizer, loss)
        measured = create_supervised_evaluator(model, {"right": Accuracy(), "loss": Loss(loss)})
        trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda _: measured.run(batches))
        with torch.enable_grad():
            trainer.run(batches, max_epochs=2)
        return {**measured.state.metrics, **weights_after(model)}

    return Program(model, (), call=call, grad=False)


def skorch(draw: Inputs) -> Program:
    import torch
    from skorch import NeuralNetClassifier

    class Classifier(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside = network()

        def forward(self, x: Any) -> Any:
            return self.inside(x).softmax(-1)

    x, y = draw.normal(24, 4).numpy(), draw.ints(3, 24).numpy()
    model = Classifier()

    def call() -> Any:
        net = NeuralNetClassifier(model, max_epochs=2, lr=0.1, verbose=0, train_split=None)
        net.fit(x, y)
        return {"p": torch.from_numpy(net.predict_proba(x)), **weights_after(net.module_)}

    return Program(model, (), call=call, grad=False)


def accelerate(draw: Inputs) -> Program:
    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader, TensorDataset

    model = network()
    data = TensorDataset(draw.normal(24, 4), draw.ints(3, 24))

    @torch.enable_grad()
    def call() -> Any:
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        prepared = accelerator.prepare(model, optimizer, DataLoader(data, 6))
        ready, stepper, batches = prepared
        for x, y in batches:
            with accelerator.accumulate(ready):
                accelerator.backward(torch.nn.functional.cross_entropy(ready(x), y))
                accelerator.clip_grad_norm_(ready.parameters(), 1.0)
                stepper.step()
                stepper.zero_grad()
        return weights_after(accelerator.unwrap_model(ready))

    return Program(model, (), call=call, grad=False)


def trainer(draw: Inputs) -> Program:
    import tempfile

    import torch
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    model = BertForSequenceClassification(BertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, num_labels=2, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    ))  # fmt: skip
    words = draw.ints(30, 16, 8)
    rows = [{"input_ids": x, "labels": n % 2} for n, x in enumerate(words)]

    @torch.enable_grad()
    def call() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            # One batch holds all rows, so their order does not matter.
            settings = TrainingArguments(
                folder, num_train_epochs=3, per_device_train_batch_size=16, save_steps=2,
                report_to=[], use_cpu=True, disable_tqdm=True, warmup_steps=1,
            )  # fmt: skip
            teacher = Trainer(model=model, args=settings, train_dataset=rows, eval_dataset=rows)
            loss = teacher.train().training_loss
            return {"loss": loss, "eval": teacher.evaluate()["eval_loss"], **weights_after(model)}

    return Program(model, (), call=call, grad=False)


# --- graphs ---------------------------------------------------------------------------------------


def graph(name: str, **settings: Any) -> Any:
    """Return a program: a layer of torch_geometric on a graph of 8 nodes."""

    def make(draw: Inputs) -> Program:
        from torch_geometric import nn

        made = getattr(nn, name)(**settings)
        return Program(made, (draw.normal(8, 6), draw.ints(8, 2, 30)))

    return make


def graph_network(draw: Inputs) -> Program:
    import torch
    from torch_geometric.data import Batch, Data
    from torch_geometric.nn import GCNConv, global_mean_pool

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = GCNConv(6, 8), GCNConv(8, 8)
            self.last = torch.nn.Linear(8, 3)

        def forward(self, x: Any, edges: Any, batch: Any) -> Any:
            x = self.first(x, edges).relu()
            return self.last(global_mean_pool(self.second(x, edges), batch))

    graphs = [Data(x=draw.normal(n, 6), edge_index=draw.ints(n, 2, 3 * n)) for n in (5, 8, 3)]
    batch = Batch.from_data_list(graphs)
    return Program(Network(), (batch.x, batch.edge_index, batch.batch))


# --- explanations and adapters --------------------------------------------------------------------


def explanation(name: str, **settings: Any) -> Any:
    """An attribution of captum."""

    def make(draw: Inputs) -> Program:
        from captum import attr

        model = network()
        x = draw.normal(5, 4)

        def call() -> Any:
            return getattr(attr, name)(model).attribute(x, target=1, **settings)

        return Program(model, (), call=call, grad=False)

    return make


def adapter(draw: Inputs) -> Program:
    from peft import LoraConfig, get_peft_model

    settings = LoraConfig(r=4, target_modules=["0", "2"], lora_dropout=0.0)
    return Program(get_peft_model(network(), settings), (draw.normal(5, 4),))


# --- diffusion ------------------------------------------------------------------------------------


def denoiser(draw: Inputs) -> Program:
    from diffusers import UNet2DModel

    model = UNet2DModel(
        sample_size=8, in_channels=3, out_channels=3, layers_per_block=1,
        block_out_channels=(8, 16), norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8,
    )  # fmt: skip
    return Program(model, (draw.normal(2, 3, 8, 8), 10), {"return_dict": False})


def autoencoder(draw: Inputs) -> Program:
    from diffusers import AutoencoderKL

    model = AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, latent_channels=2)
    return Program(model, (draw.normal(1, 3, 8, 8),), {"return_dict": False})


def schedule(name: str) -> Any:
    """Steps of a sampler of diffusers."""

    def make(draw: Inputs) -> Program:
        import diffusers

        sampler = getattr(diffusers, name)()
        sampler.set_timesteps(6)
        noise = draw.normal(6, 1, 3, 4, 4)

        def call(x: Any) -> Any:
            for t, made in zip(sampler.timesteps, noise):
                x = sampler.step(made, t, x, return_dict=False)[0]
            return x

        return Program(None, (draw.normal(1, 3, 4, 4),), call=call)

    return make


# --- images and text ------------------------------------------------------------------------------


def volumes(draw: Inputs) -> Program:
    from monai.losses import DiceCELoss
    from monai.networks.nets import UNet

    model = UNet(3, 1, 2, channels=(4, 8, 16), strides=(2, 2))
    loss = DiceCELoss(to_onehot_y=True, softmax=True)
    truth = draw.ints(2, 1, 1, 16, 16, 16)
    return Program(model, (draw.normal(1, 1, 16, 16, 16),), call=lambda x: loss(model(x), truth))


def language_model(draw: Inputs) -> Program:
    from litgpt import GPT, Config

    settings = Config(
        block_size=16, n_layer=2, n_embd=16, n_head=2, padded_vocab_size=32, n_query_groups=1
    )
    return Program(GPT(settings), (draw.ints(32, 2, 8),))


def transport(draw: Inputs) -> Program:
    import geomloss

    return Program(None, (draw.normal(10, 2), draw.normal(12, 2)), call=geomloss.SamplesLoss())


def table_network(draw: Inputs) -> Program:
    from pytorch_tabnet.tab_network import TabNetNoEmbeddings

    model = TabNetNoEmbeddings(6, 3, n_d=4, n_a=4, virtual_batch_size=32)
    return Program(model, (draw.normal(32, 6),))


# --- probability ----------------------------------------------------------------------------------


def gaussian_process(draw: Inputs) -> Program:
    import gpytorch
    import torch

    x, y = draw.uniform(12).double(), draw.normal(12).double()

    class Process(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean = gpytorch.means.ConstantMean()
            self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Process(likelihood)

    @torch.enable_grad()
    def call() -> Any:
        model.train()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = -evidence(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        model.eval()
        with torch.no_grad():
            found = likelihood(model(torch.linspace(0, 1, 7, dtype=torch.float64)))
            return {"losses": losses, "mean": found.mean, "variance": found.variance}

    return Program(model, (), call=call, grad=False)


def inference(draw: Inputs) -> Program:
    import pyro
    import pyro.distributions as dist
    import torch
    from pyro.infer import SVI, Trace_ELBO
    from torch.distributions import constraints

    seen = draw.normal(20) + 1.0
    pyro.clear_param_store()

    def model(data: Any) -> None:
        scale = pyro.param("scale", torch.tensor(2.0), constraint=constraints.positive)
        place = pyro.param("place", torch.tensor(0.0))
        with pyro.plate("data", len(data)):
            pyro.sample("x", dist.Normal(place, scale), obs=data)

    def guide(data: Any) -> None:
        """A guide without latent variables, so no random number is drawn."""

    def call() -> Any:
        stepper = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
        losses = [stepper.step(seen) for _ in range(10)]
        store = pyro.get_param_store()
        return {"losses": losses, **{name: store[name].detach() for name in store}}

    return Program(None, (), call=call, grad=False)


def stochastic_equation(draw: Inputs) -> Program:
    import torch
    import torchsde

    class Equation(torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def __init__(self) -> None:
            super().__init__()
            self.inside = torch.nn.Linear(3, 3)

        def f(self, t: Any, y: Any) -> Any:
            return self.inside(y).tanh()

        def g(self, t: Any, y: Any) -> Any:
            return torch.zeros_like(y)

    model, times = Equation(), torch.linspace(0, 1, 5)

    def call(y: Any) -> Any:
        return torchsde.sdeint(model, y, times, method="euler", dt=0.05)

    return Program(model, (draw.normal(4, 3),), call=call)


def inner_loop(draw: Inputs) -> Program:
    import higher
    import torch

    model = network()

    def call(x: Any) -> Any:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with higher.innerloop_ctx(model, optimizer, copy_initial_weights=False) as (fast, stepper):
            for _ in range(2):
                stepper.step(fast(x).square().mean())
            return fast(x)

    return Program(model, (draw.normal(5, 4),), call=call)


def acquisition(draw: Inputs) -> Program:
    from botorch.acquisition import LogExpectedImprovement
    from botorch.models import SingleTaskGP

    x, y = draw.uniform(8, 2).double(), draw.normal(8, 1).double()
    model = SingleTaskGP(x, y)
    model.eval()

    def call(points: Any) -> Any:
        return LogExpectedImprovement(model, best_f=0.5)(points)

    return Program(model, (draw.uniform(5, 1, 2),), call=call, train=False)


ROWS = [
    Row("lightning", "lightning==2.6.6", lightning),
    Row("ignite", "pytorch-ignite==0.5.5", ignite),
    Row("skorch", "skorch==1.4.0", skorch),
    Row("accelerate", "accelerate==1.15.0", accelerate),
    Row("transformers_trainer", "accelerate==1.15.0", trainer),
    Row("pyg_network", "torch-geometric==2.8.1", graph_network),
    Row("pyg_gcn", "torch-geometric==2.8.1", graph("GCNConv", in_channels=6, out_channels=5)),
    Row("pyg_gat", "torch-geometric==2.8.1",
        graph("GATv2Conv", in_channels=6, out_channels=5, heads=2)),
    Row("pyg_sage", "torch-geometric==2.8.1",
        graph("SAGEConv", in_channels=6, out_channels=5, aggr="max")),
    Row("pyg_transformer", "torch-geometric==2.8.1",
        graph("TransformerConv", in_channels=6, out_channels=5, heads=2)),
    Row("captum_gradients", "captum==0.9.0", explanation("IntegratedGradients")),
    Row("captum_deep", "captum==0.9.0", explanation("DeepLift")),
    Row("captum_saliency", "captum==0.9.0", explanation("Saliency")),
    Row("captum_ablation", "captum==0.9.0", explanation("FeatureAblation")),
    Row("peft_lora", "peft==0.21.2", adapter),
    Row("diffusers_unet", "diffusers==0.42.1", denoiser),
    Row("diffusers_vae", "diffusers==0.42.1", autoencoder),
    Row("diffusers_ddim", "diffusers==0.42.1", schedule("DDIMScheduler")),
    Row("diffusers_dpm", "diffusers==0.42.1", schedule("DPMSolverMultistepScheduler")),
    Row("diffusers_euler", "diffusers==0.42.1", schedule("EulerDiscreteScheduler")),
    Row("monai_unet", "monai==1.6.1", volumes, "float64"),
    Row("litgpt", "litgpt==0.5.13", language_model),
    Row("geomloss", "geomloss==0.3.1", transport),
    Row("tabnet", "pytorch-tabnet==4.1.0", table_network),
    Row("gpytorch", "gpytorch==1.15.2", gaussian_process, "float64"),
    Row("botorch", "botorch==0.18.1", acquisition, "float64"),
    Row("pyro", "pyro-ppl==1.9.2", inference),
    Row("torchsde", "torchsde==0.2.6", stochastic_equation),
    Row("higher", "higher==0.2.1", inner_loop),
]  # fmt: skip
