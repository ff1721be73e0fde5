// Search works in a worker. Browsers start none for pages opened from the disk: there a frame that is not shown does its work.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inside = frame.contentWindow;
      inside.document.open();
      inside.document.write("<!doctype html><title>worker</title>");
      inside.document.close();
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}));
      inside.importScripts = (...urls) => Promise.all(urls.map(source => this.load(source)));
      this.frame = frame;
      this.ready = this.load(url);
    }
    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.frame.contentDocument.createElement("script");
        script.src = new URL(url, location.href).href;
        script.onload = resolve;
        script.onerror = reject;
        this.frame.contentDocument.head.appendChild(script);
      });
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data})));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
