"""A transformer encoder layer in training: attention, dropout, residuals, layer norm, GELU.

    fusiondoc diagnose examples/encoder_layer.py --backward --output encoder.html

What is between the matrix products fuses: bias, dropout, addition and layer norm. The products
themselves, the softmax between two of them and the views do not join those groups.
"""

import torch
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
batch, length, features, heads = (16, 512, 1024, 16) if device == "cuda" else (2, 4, 16, 2)


class EncoderLayer(torch.nn.Module):
    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = torch.nn.Linear(features, 3 * features)
        self.out = torch.nn.Linear(features, features)
        self.up = torch.nn.Linear(features, 4 * features)
        self.down = torch.nn.Linear(4 * features, features)
        self.first_norm = torch.nn.LayerNorm(features)
        self.second_norm = torch.nn.LayerNorm(features)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, features = x.size(0), x.size(1), x.size(2)
        size = features // self.heads
        mixed = self.query_key_value(x).view(batch, length, 3, self.heads, size)
        query, key, value = mixed.permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.matmul(query, key.transpose(-1, -2)) / float(size) ** 0.5
        weights = F.dropout(F.softmax(scores, dim=-1), 0.1, self.training)
        return torch.matmul(weights, value).transpose(1, 2).reshape(batch, length, features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first_norm(x + F.dropout(self.out(self.attention(x)), 0.1, self.training))
        hidden = F.dropout(F.gelu(self.up(x)), 0.1, self.training)
        return self.second_norm(x + F.dropout(self.down(hidden), 0.1, self.training))


model = EncoderLayer(features, heads).to(device)
inputs = (torch.randn(batch, length, features, device=device, requires_grad=True),)
