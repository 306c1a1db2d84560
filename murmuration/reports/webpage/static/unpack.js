
// The plotting library is packed: it would be nine tenths of the page.
async function unpackLibrary() {
  const packed = document.getElementById("packed-library");
  const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
  packed.remove();
  const unpacked = new Response(bytes).body.pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(unpacked).text();
  document.head.append(script);
}
