import { defineConfig } from "vitest/config";

export default defineConfig({
  server: { fs: { allow: [".."] } }, // what released versions have saved lies beside the tests of Python
  // How long a test may take on a busy machine says nothing of what it tests.
  test: { include: ["src/**/*.test.{ts,tsx}"], testTimeout: 30_000 },
});
