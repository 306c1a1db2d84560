// Search in pages that were opened from a folder. Browsers refuse web workers there, so the script of the worker runs
// in a hidden frame instead. Material's plugin `offline` loads such a file from another machine unless one with this
// name is given.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      const frame = document.createElement("iframe");
      const address = new URL(script, location).href.replaceAll('"', "%22");
      frame.hidden = true;
      frame.answer = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      frame.srcdoc = `<script>postMessage = (data) => frameElement.answer(data);</script><script src="${address}"></script>`;
      this.frame = frame;
      this.loaded = new Promise((resolve) => frame.addEventListener("load", resolve));
      document.body.append(frame);
    }

    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
