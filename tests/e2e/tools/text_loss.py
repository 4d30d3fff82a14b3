"""Whether transformers has the same ids of texts, and the same loss.

  text_loss.py DIR TEXTS.jsonl SAMPLES LOSS      SAMPLES: what `inspect --json` says of each text; prints its loss
"""
import json, sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def documents(path):
    text, at = open(path).read().strip(), 0
    while at < len(text):
        value, at = json.JSONDecoder().raw_decode(text, at)
        yield value
        at += len(text[at:]) - len(text[at:].lstrip())


def main(folder, texts, samples, loss):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    total = n = 0
    for line, sample in zip(open(texts), documents(samples), strict=True):
        assert sample["text"].startswith(json.loads(line)["text"]) and tokenizer(sample["text"]).input_ids == sample["ids"], "other ids"
        with torch.no_grad():
            logits = model(torch.tensor([sample["ids"]])).logits[0]
        labels = torch.tensor(sample["labels"])
        total += torch.nn.functional.cross_entropy(logits, labels.long(), ignore_index=-1, reduction="sum").item()
        n += int((labels >= 0).sum())
    assert abs(total / n - float(loss)) <= 1e-4 * total / n, f"{total / n}, not {loss}"
    print(total / n)


if __name__ == "__main__":
    main(*sys.argv[1:])
