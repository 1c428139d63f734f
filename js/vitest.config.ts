import { defineConfig } from "vitest/config";

export default defineConfig({
  server: { fs: { allow: [".."] } }, // what released versions have saved lies beside the tests of Python
  test: { include: ["src/**/*.test.{ts,tsx}"] },
});
