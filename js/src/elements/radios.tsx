// Buttons of which one is on: one stop of Tab, along which arrows go (the radio group of the ARIA practices).

interface Props<T> {
  label: string;
  class: string;
  each: string;
  values: readonly (readonly [value: T, name: string, title?: string])[];
  chosen: T;
  choose: (value: T) => void;
}

export const Radios = <T,>({ label, class: group, each: button, values, chosen, choose }: Props<T>) => (
  <div class={group} role="radiogroup" aria-label={label}>
    {values.map(([value, name, title], at) => (
      <button key={name} role="radio" class={button} title={title} aria-checked={value === chosen} tabIndex={value === chosen ? 0 : -1} onClick={() => choose(value)}
        onKeyDown={(event) => {
          const step = event.key === "ArrowRight" || event.key === "ArrowDown" ? 1 : event.key === "ArrowLeft" || event.key === "ArrowUp" ? -1 : 0;
          if (step === 0) return;
          const to = (at + step + values.length) % values.length;
          choose((values[to] as (typeof values)[number])[0]);
          (event.currentTarget.parentElement?.children[to] as HTMLElement).focus({ preventScroll: true });
          event.preventDefault();
          event.stopPropagation();
        }}>
        {name}
      </button>
    ))}
  </div>
);
