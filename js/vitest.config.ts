import { readdirSync, readFileSync } from "node:fs";
import { defineConfig } from "vitest/config";

const files = readdirSync("src", { recursive: true, encoding: "utf8" })
  .filter((name) => /\.test\.tsx?$/.test(name))
  .map((name) => `src/${name}`);
const onPage = files.filter((name) => readFileSync(name, "utf8").includes("@vitest-environment jsdom"));
const part = (name: string, include: string[], isolate: boolean) => ({
  server: { fs: { allow: [".."] } }, // what released versions have saved lies beside the tests of Python
  // How long a test may take on a busy machine says nothing of what it tests.
  test: { name, include, isolate, testTimeout: 30_000, pool: "threads" as const },
});

// What needs no page shares the modules that it imports, which takes half the time. A page keeps what was done on it.
export default defineConfig({
  test: { projects: [part("pure", files.filter((name) => !onPage.includes(name)), false), part("page", onPage, true)] },
});
