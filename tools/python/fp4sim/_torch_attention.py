"""torch.nn.MultiheadAttention whole under a recipe: the projections as linear layers, QK^T and PV as its `qk` and `pv`."""
import math

import torch
from torch import nn

from ._core import Error
from ._torch_layers import Converted, allow

LINEAR = "q", "k", "v", "o"
PRODUCTS = "qk", "pv"


def rows_of(name, module, quantisable):
    """(layers, products) as rows of a group."""
    width, head = module.embed_dim, module.head_dim
    sizes = (width, width), (module.kdim, width), (module.vdim, width), (width, width)
    layers = [(f"{name}.{part}", *size, quantisable, False) for part, size in zip(LINEAR, sizes)]
    return layers, [(f"{name}.qk", head, 1, False, True), (f"{name}.pv", 1, head, False, True)]


class Attention(Converted):
    """torch.nn.MultiheadAttention: never by torch's fused path, which would compute all of it in one fp32 kernel."""

    def _weights(self):
        if self._qkv_same_embed_dim:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        return weights, (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)

    def _product(self, part, x, weight):
        """[B, H, N, K] and [B, H, M, K] -> [B, H, N, M]: by torch where the recipe says so."""
        number = self._numbers[4 + PRODUCTS.index(part)]
        if not self._group.quantised(number):
            return torch.matmul(x, weight.transpose(2, 3).to(x.dtype))
        return self._group.product(self, number, x, weight)

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):
        if any(t.is_nested for t in (query, key, value)):
            raise Error(f"{self._group.rows[self._number][0]}: nested tensors are not taken; accepted: padded ones with masks")
        if is_causal and attn_mask is None:
            raise Error("is_causal is a hint about attn_mask; accepted: with attn_mask")
        batched = query.dim() == 3
        if not batched:
            query, key, value = (t.unsqueeze(0) for t in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (t.transpose(0, 1) for t in (query, key, value))
        batch, length = query.shape[:2]
        keys = key.shape[1]
        for word, given, axes, fits in (("key", key, 2, [(batch, keys)]), ("value", value, 2, [(batch, keys)]),
                                        ("key_padding_mask", key_padding_mask, 9, [(batch, keys)]),
                                        ("attn_mask", attn_mask, 9, [(length, keys), (batch * self.num_heads, length, keys)])):
            if given is not None and given.shape[:axes] not in fits:
                raise Error(f"{word}: is {tuple(given.shape)}; accepted: {' or '.join(map(str, fits))}")
        weights, biases = self._weights()
        q, k, v = (self._group.linear(self, number, x, weight, bias)
                   for number, x, weight, bias in zip(self._numbers, (query, key, value), weights, biases))
        k, v, extra = self._more_keys(k, v, batch)
        q, k, v = (t.reshape(batch, t.shape[1], self.num_heads, self.head_dim).transpose(1, 2) for t in (q, k, v))
        mask = self._mask(attn_mask, key_padding_mask, batch, extra, q)
        scores = self._scores(q, k)
        shares = torch.softmax(scores if mask is None else scores + mask, -1)
        shares = nn.functional.dropout(shares, self.dropout, self.training)
        y = self._product("pv", shares, v.transpose(2, 3))
        y = self._group.linear(self, self._numbers[3], y.transpose(1, 2).reshape(batch, length, self.embed_dim),
                               self.out_proj.weight, self.out_proj.bias)
        if not need_weights:
            shares = None
        elif average_attn_weights:
            shares = shares.mean(1)
        if not batched:
            return y.squeeze(0), None if shares is None else shares.squeeze(0)
        return (y if self.batch_first else y.transpose(0, 1)), shares

    def _scores(self, q, k):
        factor = 1 / math.sqrt(self.head_dim)
        if not self._group.quantised(self._numbers[4]):
            return self._product("qk", q * factor, k)
        if self._group.facts["recipe"].get("center_keys"):
            k = k - k.mean(2, keepdim=True)  # the same from every score of a row
        return self._product("qk", q, k) * factor

    def _more_keys(self, k, v, batch):
        """Keys and values with bias_k, bias_v and the zeros of add_zero_attn, and how many they are more."""
        extra = 0
        if self.bias_k is not None:
            k, v = (torch.cat([t, b.to(t.dtype).expand(batch, 1, -1)], 1) for t, b in ((k, self.bias_k), (v, self.bias_v)))
            extra += 1
        if self.add_zero_attn:
            k, v = (torch.cat([t, t.new_zeros(batch, 1, t.shape[2])], 1) for t in (k, v))
            extra += 1
        return k, v, extra

    def _mask(self, attn_mask, key_padding_mask, batch, extra, like):
        """What is added to the scores; None for nothing."""
        total = None
        for mask, shape in ((attn_mask, None), (key_padding_mask, (batch, 1, 1, -1))):
            if mask is None:
                continue
            if mask.dtype in (torch.bool, torch.uint8):
                mask = like.new_zeros(mask.shape).masked_fill(mask.bool(), -math.inf)
            mask = mask.reshape(shape) if shape else mask.reshape(batch, self.num_heads, *mask.shape[1:]) if mask.dim() == 3 else mask
            mask = nn.functional.pad(mask, (0, extra)).to(like.dtype)
            total = mask if total is None else total + mask
        return total


allow(Attention)
