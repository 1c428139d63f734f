// Builds the two entries into the Python package: `timeline.js` with its style sheet is what anywidget loads,
// `labextension/` is the MIME renderer as JupyterLab wants it installed. Nothing is fetched at run time, so everything
// is bundled.
import { cp, mkdir, rm, stat } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = fileURLToPath(new URL("../ensemble_notebook/static/", import.meta.url));
const limit = 160_000;

// Every element costs some ten bytes less than by the imports that `tsconfig.json` asks for, which types need.
const elements = {
  inject: [`${here}element.mjs`],
  tsconfigRaw: { compilerOptions: { jsx: "react", jsxFactory: "h", jsxFragmentFactory: "Fragment", target: "ES2022", useDefineForClassFields: true } },
};

// What is shown late brings its style sheet as a text.
const lateStyle = {
  name: "style-as-text",
  setup(bundle) {
    bundle.onLoad({ filter: /late\.css$/ }, async ({ path }) => {
      const { outputFiles } = await build({ entryPoints: [path], bundle: true, minify: true, write: false });
      return { contents: outputFiles[0].text.trim(), loader: "text" };
    });
  },
};
const plain = { absWorkingDir: here, bundle: true, minify: true, target: "es2022", charset: "utf8", legalComments: "none", logLevel: "warning" };
const common = { ...plain, ...elements };
const style = { absWorkingDir: here, entryPoints: ["src/theme/timeline.css"], bundle: true, minify: true, logLevel: "warning" };

// What an earlier version built would ship as well.
await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });

// The widget is one module, and brings others as texts: each is loaded when something in it is wanted for the first time.
await build({
  ...common,
  entryPoints: { timeline: "src/entry/anywidget.ts" },
  outdir: out,
  format: "esm",
  plugins: [lateStyle, {
    name: "late-from-texts",
    setup: (bundle) => bundle.onResolve({ filter: /\/load-(details|explorer|views)$/ }, () => ({ path: `${here}src/entry/late-texts.ts` })),
  }],
});
await build({ ...common, entryPoints: { details: "src/details/drawer-root.tsx", explorer: "src/explore/explorer-root.tsx", views: "src/explore/views-root.tsx" }, outdir: out, format: "esm", plugins: [lateStyle] });
// The widget of the board of runs, which brings its style sheet beyond that of the timeline.
await build({ ...common, entryPoints: { board: "src/entry/board-widget.ts" }, outdir: out, format: "esm", plugins: [lateStyle] });
await build({ ...style, outdir: out });

// The extension is loaded in pieces: the views and their style sheet with the first timeline of a page, the drawer with the
// first span that is opened, the board of runs and what reads trace files with the first of those. What several pieces need is in
// a piece that they share, so that no library is there twice. Names have a hash, so that no cache keeps an old file.
const named = { outdir: `${out}labextension/static`, entryNames: "[name]-[hash]", chunkNames: "[name]-[hash]", metafile: true };
const { metafile: views } = await build({ ...common, ...named, entryPoints: { view: "src/entry/lab-view.ts" }, format: "esm", splitting: true, plugins: [lateStyle] });
const { metafile: styles } = await build({ ...style, ...named });
const nameOf = (path) => path.split("/").at(-1);
const [viewPath, view] = Object.entries(views.outputs).find(([, { entryPoint }]) => entryPoint === "src/entry/lab-view.ts");
// With the view comes what it can't do without: asked for at once, and not only once the view has been read.
const viewFiles = [viewPath, ...view.imports.filter(({ kind }) => kind === "import-statement").map(({ path }) => path)].map(nameOf);
const styleFile = nameOf(Object.keys(styles.outputs)[0]);
await build({
  ...plain,
  entryPoints: { "labextension/static/remoteEntry": "src/entry/jupyterlab.ts" },
  define: { VIEW_FILES: JSON.stringify(viewFiles), STYLE_FILE: JSON.stringify(styleFile) },
  outdir: out,
  format: "iife",
});
await cp(`${here}/lab`, `${out}/labextension`, { recursive: true });

// What a page loads before its first timeline is there, and all that it may load.
const firstFiles = ["remoteEntry.js", ...viewFiles, styleFile];
const inExtension = ["remoteEntry.js", ...Object.keys(views.outputs).map(nameOf), styleFile].map((file) => `labextension/static/${file}`);
let [extension, first] = [0, 0];
for (const name of ["timeline.js", "details.js", "explorer.js", "views.js", "board.js", "timeline.css", ...inExtension]) {
  const { size } = await stat(out + name);
  console.log(`${name}: ${(size / 1000).toFixed(1)} kB`);
  if (size > limit) throw new Error(`${name} is ${size} bytes, and ${limit} is the limit`);
  if (inExtension.includes(name)) extension += size;
  if (firstFiles.includes(nameOf(name))) first += size;
}
for (const [what, size, most] of [["the first paint", first, 215_000], ["the extension in sum", extension, 520_000]]) {
  console.log(`${what}: ${(size / 1000).toFixed(1)} kB`);
  if (size > most) throw new Error(`${what} is ${size} bytes, and ${most} is the limit`);
}
