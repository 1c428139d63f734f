// How much of the budget is spent: the limit that is nearest, in words and as a small bar.

import type { Budget, Run } from "../wire/rows";
import { formatCount, formatMoney, formatPercent, pluralize } from "../wording/numbers";

const WARN_AT = 0.8;

interface Limit {
  readonly text: string;
  readonly share: number;
  readonly isCost: boolean;
}

function limitsOf(budget: Budget): Limit[] {
  const found: Limit[] = [];
  const add = (spent: number | null | undefined, most: number | null | undefined, text: string, isCost = false): void => {
    if (most != null && most > 0) found.push({ text, share: (spent ?? 0) / most, isCost });
  };
  add(budget.cost, budget.max_cost, `${formatMoney(budget.cost ?? 0, budget.currency)} of ${formatMoney(budget.max_cost, budget.currency)}`, true);
  add(budget.tokens, budget.max_tokens, `${formatCount(budget.tokens ?? 0)} of ${formatCount(budget.max_tokens)} tok`);
  add(budget.llm_calls, budget.max_llm_calls, `${formatCount(budget.llm_calls ?? 0)} of ${pluralize(budget.max_llm_calls ?? 0, "call")}`);
  return found.sort((a, b) => b.share - a.share);
}

/** True where the budget's limit on money is shown, so that the cost need not be said twice. */
export const isCostBudget = (budget: Budget | null | undefined): boolean =>
  budget != null && limitsOf(budget)[0]?.isCost === true;

export function BudgetShare({ budget, run }: { budget: Budget; run: Run }) {
  const limits = limitsOf(budget);
  const nearest = limits[0];
  if (!nearest) return null;
  const percent = Math.round(100 * nearest.share);
  const level = run.status === "budget_exceeded" || nearest.share >= 1 ? "full" : nearest.share >= (budget.warn_at ?? WARN_AT) ? "near" : "fine";
  const [spent, most] = nearest.text.split(" of ");
  return (
    <span class="et-budget" data-level={level} title={`Spent of the budget: ${limits.map((limit) => limit.text).join(", ")}`}>
      <span>{level === "fine" ? "" : "⚠ "}<b>{spent}</b> of {most}</span>
      <span class="et-meter" role="meter" aria-label="Budget spent" aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.min(percent, 100)}
        aria-valuetext={`${formatPercent(nearest.share)}: ${nearest.text}`}>
        <i style={{ width: `${Math.min(percent, 100)}%` }} />
      </span>
    </span>
  );
}
