import { readdirSync, readFileSync } from "node:fs";
import { defineConfig } from "vitest/config";

const files = readdirSync("src", { recursive: true, encoding: "utf8" })
  .filter((name) => /\.test\.tsx?$/.test(name))
  .map((name) => `src/${name}`);
const onPage = files.filter((name) => readFileSync(name, "utf8").includes("@vitest-environment jsdom"));
const part = (name: string, include: string[], setupFiles: string[]) => ({
  server: { fs: { allow: [".."] } }, // what released versions have saved lies beside the tests of Python
  // How long a test may take on a busy machine says nothing of what it tests.
  test: { name, include, setupFiles, isolate: false, testTimeout: 30_000, pool: "threads" as const },
});

// Tests share the modules that they import, and a page, which takes half the time; a page is cleared before each file.
export default defineConfig({
  test: {
    projects: [part("pure", files.filter((name) => !onPage.includes(name)), []), part("page", onPage, ["src/testing/new-page.ts"])],
  },
});
