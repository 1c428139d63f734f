// Builds the two entries into the Python package: `timeline.js` with its style sheet is what anywidget loads,
// `labextension/` is the MIME renderer as JupyterLab wants it installed. Nothing is fetched at run time, so everything
// is bundled.
import { cp, mkdir, readFile, rm, stat } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build, transform } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = fileURLToPath(new URL("../ensemble_notebook/static/", import.meta.url));
const limit = 160_000;

const styleAsText = {
  name: "style-as-text",
  setup(bundle) {
    bundle.onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const { code } = await transform(await readFile(path, "utf8"), { loader: "css", minify: true });
      return { contents: code, loader: "text" };
    });
  },
};

// What an earlier version built would ship as well.
await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { timeline: "src/entry/anywidget.ts" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
});
await build({ absWorkingDir: here, entryPoints: ["src/theme/timeline.css"], outdir: out, minify: true, logLevel: "warning" });
await build({
  absWorkingDir: here,
  entryPoints: { "labextension/static/remoteEntry": "src/entry/jupyterlab.ts" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  plugins: [styleAsText],
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
});
await cp(`${here}/lab`, `${out}/labextension`, { recursive: true });

const style = (await stat(`${out}timeline.css`)).size;
// The renderer carries the style sheet as text; its code is held to the same limit as that of the widget.
for (const [name, carried] of [["timeline.js", 0], ["timeline.css", 0], ["labextension/static/remoteEntry.js", style]]) {
  const { size } = await stat(out + name);
  console.log(`${name}: ${(size / 1000).toFixed(1)} kB`);
  if (size - carried > limit) throw new Error(`${name} is ${size} bytes, and ${limit + carried} is the limit`);
}
