"""The Trainers of Hugging Face and Lightning, their real packages: the nightly
workflow installs them.

At every push test_script_programs.py has a trainer of a library that is like
theirs.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from command_line import Run

TRAINER = """
import sys

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


@torch.jit.script
def quick_gelu(x):
    return torch.sigmoid(x * 1.702) * x


class QuickGelu(torch.nn.Module):
    def forward(self, x):
        return quick_gelu(x)


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return {"input_ids": torch.full((4,), index), "labels": torch.tensor(index % 2)}


sizes = dict(vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
model = BertForSequenceClassification(BertConfig(**sizes, max_position_embeddings=8))
model.bert.encoder.layer[0].intermediate.intermediate_act_fn = QuickGelu()
options = dict(max_steps=5, per_device_train_batch_size=2, dataloader_num_workers=1)
quiet = dict(report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True, logging_strategy="no")
arguments = TrainingArguments(output_dir=sys.argv[1], **options, **quiet)
Trainer(model=model, args=arguments, train_dataset=Texts()).train()
"""

LIGHTNING = """
import sys

import pytorch_lightning as lightning
import torch


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.block = torch.jit.script(torch.nn.Sequential(torch.nn.Sigmoid(), torch.nn.Tanh()))
        self.inner = torch.nn.Linear(4, 4)

    def training_step(self, batch, index):
        return self.block(self.inner(batch[0])).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


data = torch.utils.data.TensorDataset(torch.randn(8, 4))
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", default_root_dir=sys.argv[1], **quiet)
trainer.fit(Net(), torch.utils.data.DataLoader(data, batch_size=2))
"""

TRAINERS = {
    "transformers": (TRAINER, "quick_gelu", 5, "AdamW.step"),
    "pytorch_lightning": (LIGHTNING, "Sequential", 4, "SGD.step"),
}


@pytest.mark.cold
def test_trainers(tmp_path: Path, fusiondoc: Run) -> None:
    """In one program, because most of it is their imports (transformers 5.23 with
    accelerate 1.15, pytorch-lightning 2.6.6)."""
    here = [
        one
        for name, one in TRAINERS.items()
        if importlib.util.find_spec(name) is not None
    ]
    if not here:
        pytest.skip("needs transformers with accelerate, or pytorch-lightning")
    (tmp_path / "train.py").write_text(
        "\n".join(source for source, *_ in here), "utf-8"
    )
    done = fusiondoc(
        "diagnose",
        "--script",
        "train.py",
        "--format",
        "json",
        "--",
        str(tmp_path / "out"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    models = {one["name"]: one["groups"] for one in report["script"]["models"]}
    assert list(models) == [name for _, name, _, _ in here] and all(models.values())
    assert {id for groups in models.values() for id in groups} == {
        g["id"] for g in report["groups"]
    }
    for groups in models.values():
        phases = {one["phase"] for one in report["groups"] if one["id"] in groups}
        assert phases == {"forward", "backward"}
    # Of several optimizers that with the most steps.
    assert (report["script"]["steps"], report["script"]["step_by"]) == here[0][2:]
