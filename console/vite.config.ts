import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// The server embeds what is written here, flat, and serves it under /console/; the page itself is /.
export default defineConfig({
  base: "/console/",
  plugins: [svelte()],
  build: {
    outDir: "../crates/server/console-dist",
    emptyOutDir: true,
    assetsDir: "",
    // Fonts stay files: the policy of the page lets no `data:` in but images.
    assetsInlineLimit: 0,
    target: "es2023",
    cssTarget: ["chrome125", "firefox128", "safari18"],
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
    chunkSizeWarningLimit: 600,
    rollupOptions: {
      output: {
        entryFileNames: "[name]-[hash].js",
        chunkFileNames: "[name]-[hash].js",
        // One file of everything would be larger than any file of this repository may be.
        codeSplitting: { groups: [{ name: "editor", test: /node_modules\/(?:@codemirror|@lezer|@marijn|style-mod|w3c-keyname|crelt)/ }] },
        assetFileNames: "[name]-[hash][extname]",
      },
    },
  },
  server: { proxy: { "/v1": "http://127.0.0.1:4766", "/metrics": "http://127.0.0.1:4766" } },
});
