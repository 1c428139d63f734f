// What the models of the dev page say: Markdown with all that may be in it, JSON, and one reply that is far too long.

export const MARKDOWN = `# Local models in notebooks

Three findings **stand out**, and one is *surprising*:

1. Start-up cost dominates short runs
   - loading: \`5-10 s\`
   - first token: 320 ms
2. Constrained decoding makes small models ***dependable***
3. People want to see what is going on

| Model | Start | Tokens per second |
|:------|:-----:|------------------:|
| SmolLM2 135M | 0.6 s | 84 |
| Qwen2.5 0.5B | 1.9 s | 31 |
| Llama 3.2 1B | 4.2 s | 12 |

> Small models are enough where the question is small.
> Nobody has measured the rest.

\`\`\`python
report = ensemble.run(topic="tides")
report.frames.llm_calls.groupby("model").output_tokens.sum()
\`\`\`

- [x] sources checked
- [ ] figures checked

See [the paper](https://example.org/a-paper) and ![a chart of tokens](https://example.org/chart.png).
<script>alert('never')</script>

---
~~An earlier claim~~ was withdrawn.`;

export const FOUND = {
  query: "local language models in notebooks 2026", total: 128, cached: false, next: null,
  results: Array.from({ length: 24 }, (_, k) => ({
    title: `Small models, big notebooks (${k + 1})`, url: `https://example.org/${k}`, score: Math.round(1e4 * (0.95 - k * 0.02)) / 1e4,
    authors: ["A. Lopez", "B. Tran"], year: 2026 - (k % 5),
  })),
};

export const LONG = Array.from({ length: 14_000 }, (_, k) => `${k + 1}. The tide at hour ${k} is ${((k * 37) % 690) / 100} m, **as measured**.\n`).join("");
const FIRST = 20_000;

/** Details of the one call with the long reply, and the pieces of it. */
export function longDetails(id) {
  return {
    kind: "details", span_id: id, input: null, output: LONG.slice(0, FIRST), error: null,
    messages: [
      { role: "system", text: "You compare findings.", field: "message.0" },
      { role: "user", text: "Compare all tides of two years.", field: "message.1" },
      { role: "assistant", text: LONG.slice(0, FIRST), field: "message.2" },
    ],
    lengths: { output: LONG.length, "message.2": LONG.length }, handovers: [],
  };
}

export const pieceOf = ({ span_id, field, from }) =>
  ({ kind: "piece", span_id, field, from, text: LONG.slice(from, from + 100_000), length: LONG.length });
