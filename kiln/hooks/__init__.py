"""What a site has done before and after the steps of its clusters' lives."""
