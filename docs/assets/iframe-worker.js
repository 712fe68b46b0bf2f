/* Browsers refuse to start workers from file://. There, run the search worker in a hidden frame instead. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.backlog = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.append(this.frame);
      this.inner = this.frame.contentWindow;
      this.inner.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        if (this.onmessage) this.onmessage(event);
        this.dispatchEvent(event);
      };
      const script = this.inner.document.createElement("script");
      script.src = new URL(url, location.href).href;
      script.onload = () => {
        const backlog = this.backlog;
        this.backlog = null;
        for (const data of backlog) this.postMessage(data);
      };
      this.inner.document.documentElement.append(script);
    }

    postMessage(data) {
      if (this.backlog) this.backlog.push(data);
      else this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
