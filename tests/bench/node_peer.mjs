// Runs the proxies of an installed @anthropic-ai/sandbox-runtime without the rest of it: every host allowed, no
// token, no address lookup, no log, which is their fastest configuration. Prints one line of JSON with the ports and
// lives until standard input closes.
//
//   node node_peer.mjs PACKAGE_FOLDER bare|mux
//
// bare: the HTTP module and the SOCKS module, each on a port of its own. mux: both behind the one port that the
// package really exposes (the HTTP module then sits behind a Unix socket).
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, shape] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(join(folder, "dist", "sandbox", name)).href);
const { createHttpProxyServer } = await load("http-proxy.js");
const { createSocksProxyServer } = await load("socks-proxy.js");
const { createMuxProxyServer } = await load("mux-proxy.js");

async function listen(server) {
  server.listen(0, "127.0.0.1", 1024);
  await once(server, "listening");
  return server.address().port;
}

const http = createHttpProxyServer({ filter: () => true });
const socks = createSocksProxyServer({ filter: () => true });
let ports;
let mux;
if (shape === "mux") {
  mux = createMuxProxyServer({
    httpServer: http,
    handleSocksConnection: (socket) => socks.handleConnection(socket),
  });
  await mux.listenHttpBackend();
  const port = await listen(mux.server);
  ports = { http: port, socks: port };
} else {
  ports = {
    http: await listen(http),
    socks: await listen(createServer((socket) => socks.handleConnection(socket))),
  };
}
process.stdout.write(`${JSON.stringify(ports)}\n`);
process.stdin.resume();
process.stdin.once("end", () => {
  mux?.removeBackendSocketSync();
  process.exit(0);
});
